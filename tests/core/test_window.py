from dataclasses import replace
from typing import Any

import pytest

from p2pd.core.checking import check_choices, most_present
from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.ids import UpdateId
from p2pd.core.messages import ChoiceKind, Choices, Service, accusation
from p2pd.core.signed import Signed
from p2pd.core.standing import newcomer
from p2pd.core.votes import Reason, ReasonKind
from p2pd.core.window import EVIDENCE_PER_DECISION, Entry, Fetch, Window
from p2pd.core.work import Verdict
from p2pd.io.keys import Ed25519Signer
from tests.cli.chains import key
from tests.core.builders import (
    GENESIS,
    REDUCERS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    beacon,
    choices,
    follow,
    release,
    running,
    setting_of,
    two_faces,
    update,
)

OPENED_S = 1000.0
DEADLINE_S = SETTING.revision.schedule.deadline_ms / 1000
FIVE = running(trainers=4)
ALL = TRAINERS[:4]


def window(previous: Decision = FIVE, setting: Setting = SETTING) -> Window:
    return Window(setting, previous, OPENED_S)


def announce(here: Window, who: Ed25519Signer, previous: Decision = FIVE, **changes: Any) -> Entry:
    signed = update(previous, who, **changes)
    entry = here.entries[UpdateId(signed.id)] = Entry(signed, None)
    return entry


def deliver(
    here: Window,
    who: Ed25519Signer,
    at_s: float,
    verdict: Verdict = Verdict.ACCEPTED,
    **changes: Any,
) -> Signed[Any]:
    entry = announce(here, who, **changes)
    here.note_verdict(entry, verdict, "", at_s)
    return entry.update


def test_a_window_closes_once_every_lease_is_delivered_or_released() -> None:
    here = window()
    assert here.closes_s() == OPENED_S + DEADLINE_S
    for who in ALL[:3]:
        deliver(here, who, OPENED_S + 20)
    assert here.closes_s() == OPENED_S + DEADLINE_S
    here.releases[ALL[3].peer] = release(FIVE, ALL[3])
    assert here.closes_s() == OPENED_S


def test_an_update_counts_as_delivered_once_its_verdict_is_known_or_it_cannot_be_had() -> None:
    here = window()
    for who in ALL[:3]:
        deliver(here, who, OPENED_S + 20, Verdict.NONFINITE)
    entry = announce(here, ALL[3])
    assert here.closes_s() == OPENED_S + DEADLINE_S
    # A release does not take an update back that is on its way.
    here.releases[ALL[3].peer] = release(FIVE, ALL[3])
    assert here.closes_s() == OPENED_S + DEADLINE_S
    entry.fetch = Fetch.FAILED
    assert here.closes_s() == OPENED_S


def test_when_most_is_delivered_the_rest_gets_half_as_long_again() -> None:
    dealt = running(trainers=4, setting=setting_of(max_roster=4))
    five = replace(
        dealt.state.plan,
        roster=tuple(
            replace(lease, samples=samples)
            for lease, samples in zip(dealt.state.plan.roster, (30, 30, 20, 20), strict=True)
        ),
    )
    previous = replace(dealt, state=replace(dealt.state, plan=five))
    here = window(previous)
    for who, at_s in zip(ALL[:2], (10.0, 12.0), strict=True):
        deliver(here, who, OPENED_S + at_s)
    assert here.closes_s() == OPENED_S + DEADLINE_S
    deliver(here, ALL[2], OPENED_S + 16.0)
    assert here.mostly_delivered_s == OPENED_S + 16.0
    assert here.closes_s() == OPENED_S + 24.0
    deliver(here, ALL[3], OPENED_S + 17.0)
    assert here.mostly_delivered_s == OPENED_S + 16.0
    assert here.closes_s() == OPENED_S


def test_the_deadline_is_the_last_moment() -> None:
    five = running(trainers=4, setting=setting_of(deadline_ms=10_000))
    here = Window(setting_of(deadline_ms=10_000), five, OPENED_S)
    here.mostly_delivered_s = OPENED_S + 9.0
    assert here.closes_s() == OPENED_S + 10.0


def test_a_released_lease_is_not_delivered() -> None:
    here = window()
    for who in ALL[:3]:
        here.releases[who.peer] = release(FIVE, who)
    deliver(here, ALL[3], OPENED_S + 5)
    assert here.mostly_delivered_s is None


def test_an_idle_height_waits_for_a_trainer_and_settles() -> None:
    here = window(GENESIS)
    assert here.closes_s() is None
    here.add_beacon(beacon(1, REDUCERS[0], Service.REDUCE), OPENED_S + 5)
    assert here.closes_s() is None
    here.add_beacon(beacon(1, TRAINERS[0]), OPENED_S + 7)
    here.add_beacon(beacon(1, TRAINERS[1]), OPENED_S + 7.5)
    assert here.closes_s() == OPENED_S + 7 + SETTING.revision.schedule.settle_ms / 1000


def test_evidence_wakes_an_idle_height_once() -> None:
    here = window(GENESIS)
    here.add_evidence(two_faces(1, VALIDATORS[0]), OPENED_S + 3)
    here.add_evidence(two_faces(1, VALIDATORS[0]), OPENED_S + 4)
    here.add_evidence(two_faces(1, VALIDATORS[1]), OPENED_S + 5)
    assert here.woken_s == OPENED_S + 3
    assert [accusation(one).signer for one in here.evidence_held()] == [
        VALIDATORS[0].peer,
        VALIDATORS[1].peer,
    ]


@pytest.mark.parametrize("field", ["suspended", "pending"])
def test_evidence_that_was_acted_on_wakes_nobody(field: str) -> None:
    known: Any = {field: (VALIDATORS[0].peer,)}
    here = window(replace(GENESIS, state=replace(GENESIS.state, **known)))
    here.add_evidence(two_faces(1, VALIDATORS[0]), OPENED_S)
    assert (here.woken_s, here.evidence_held()) == (None, ())


def test_evidence_of_a_height_to_come_waits_and_a_decision_takes_so_much() -> None:
    here = window()
    here.add_evidence(two_faces(3, VALIDATORS[0]), OPENED_S)
    assert here.evidence_held() == ()
    for n in range(EVIDENCE_PER_DECISION + 2):
        here.add_evidence(two_faces(2, key(f"one of many {n}")), OPENED_S)
    held = [accusation(one).signer for one in here.evidence_held()]
    assert len(held) == EVIDENCE_PER_DECISION
    assert held == sorted(held)


def test_a_finished_run_does_not_close_by_itself() -> None:
    setting = setting_of(end_heads=1)
    dealt = running(1, 0, setting)
    chosen = choices(dealt, [update(dealt, TRAINERS[0], setting)])
    here = window(follow(dealt, chosen, setting), setting)
    here.add_beacon(beacon(3, TRAINERS[0], setting=setting), OPENED_S)
    assert here.closes_s() is None


def test_a_beacon_counts_once_and_not_from_quarantine() -> None:
    row = replace(newcomer(STRANGER.peer, SETTING.revision.schedule), quarantined_until=9)
    here = window(replace(GENESIS, state=replace(GENESIS.state, standing=(row,))))
    here.add_beacon(beacon(1, STRANGER), OPENED_S)
    assert (here.presence(OPENED_S), here.closes_s()) == ((), None)
    first = beacon(1, TRAINERS[0])
    here.add_beacon(first, OPENED_S)
    here.add_beacon(beacon(1, TRAINERS[0], Service.REDUCE), OPENED_S + 1)
    assert here.presence(OPENED_S + 1) == (first,)
    assert here.beacons_s[TRAINERS[0].peer] == OPENED_S


def test_i07_a_lease_has_one_candidate_and_an_accepted_one_if_there_is_any() -> None:
    here = window()
    updates = [
        deliver(here, ALL[0], OPENED_S, verdict, steps=n + 1)
        for n, verdict in enumerate([Verdict.SIZE, Verdict.ACCEPTED, Verdict.ACCEPTED])
    ]
    rejected = deliver(here, ALL[1], OPENED_S, Verdict.NONFINITE)
    announce(here, ALL[2])
    candidates = here.candidates(frozenset())
    found = {one.update.author: (one.update.id, one.verdict) for one in candidates}
    assert found == {
        ALL[0].key: (min(one.id for one in updates[1:]), Verdict.ACCEPTED),
        ALL[1].key: (rejected.id, Verdict.NONFINITE),
    }
    assert [one.update.id for one in candidates] == sorted(one.update.id for one in candidates)
    check_choices(SETTING, FIVE, choices(FIVE, candidates))


def test_what_is_disputed_is_listed_as_such() -> None:
    here = window()
    one, other = deliver(here, ALL[0], OPENED_S), deliver(here, ALL[1], OPENED_S)
    verdicts = {c.update.id: c.verdict for c in here.candidates(frozenset({one.id}))}
    assert verdicts == {one.id: Verdict.DISPUTED, other.id: Verdict.ACCEPTED}


CLOSED_S = OPENED_S + 40
GRACE_S = 6.0  # a tenth of the deadline


def left_out(here: Window, *named: Signed[Any], **more: Any) -> tuple[Reason, ...]:
    chosen: Choices = choices(FIVE, named, kind=ChoiceKind.WINDOW, **more)
    return here.left_out(chosen, CLOSED_S)


def test_a_proposal_must_not_omit_what_was_held_for_long() -> None:
    here = window()
    early = deliver(here, ALL[0], CLOSED_S - GRACE_S)
    late = deliver(here, ALL[1], CLOSED_S - GRACE_S + 0.1)
    bad = deliver(here, ALL[2], OPENED_S, Verdict.NONFINITE)
    announce(here, ALL[3])
    assert left_out(here) == (Reason(ReasonKind.OMITTED, early.id, 0),)
    assert left_out(here, early) == ()
    assert left_out(here, late, bad) == (Reason(ReasonKind.OMITTED, early.id, 0),)


def test_a_trainer_that_sends_two_updates_makes_no_proposal_wrong() -> None:
    here = window()
    one, other = (deliver(here, ALL[0], OPENED_S, steps=n) for n in (1, 2))
    assert left_out(here, one) == left_out(here, other) == ()
    assert len(left_out(here)) == 2


def test_a_proposal_must_not_omit_evidence_that_was_held_for_long() -> None:
    here = window()
    early, late = two_faces(2, VALIDATORS[0]), two_faces(2, VALIDATORS[1])
    assert here.add_evidence(early, CLOSED_S - GRACE_S)
    assert not here.add_evidence(early, CLOSED_S)
    assert here.add_evidence(late, CLOSED_S - GRACE_S + 0.1)
    assert here.add_evidence(two_faces(3, VALIDATORS[2]), OPENED_S)  # of a height to come
    assert left_out(here) == (Reason(ReasonKind.IGNORED, VALIDATORS[0].peer, 0),)
    assert left_out(here, evidence=(early,)) == ()
    full = tuple(two_faces(2, key(f"one of many {n}")) for n in range(EVIDENCE_PER_DECISION))
    assert left_out(here, evidence=full) == ()


def test_a_proposal_must_not_omit_a_beacon_that_was_held_for_long() -> None:
    here = window()
    early, late = beacon(2, TRAINERS[0]), beacon(2, TRAINERS[1])
    here.add_beacon(early, CLOSED_S - GRACE_S)
    here.add_beacon(late, CLOSED_S - GRACE_S + 0.1)
    assert left_out(here) == (Reason(ReasonKind.ABSENT, TRAINERS[0].peer, 0),)
    assert left_out(here, presence=(early,)) == ()


def test_a_proposal_that_holds_all_the_beacons_it_may_omits_nobody() -> None:
    setting = setting_of(max_roster=1)
    dealt = running(1, 0, setting)
    here = window(dealt, setting)
    here.add_beacon(beacon(2, TRAINERS[5], setting=setting), OPENED_S)
    most = most_present(setting.revision.schedule)
    crowd = [beacon(2, key(f"crowd {n}"), setting=setting) for n in range(most)]
    full = choices(dealt, (), crowd)
    assert here.left_out(full, CLOSED_S) == ()
    fewer = replace(full, presence=full.presence[1:])
    assert [one.kind for one in here.left_out(fewer, CLOSED_S)] == [ReasonKind.ABSENT]


def test_the_grace_is_never_under_five_seconds() -> None:
    setting = setting_of(deadline_ms=1000)
    dealt = running(1, 0, setting)
    here = window(dealt, setting)
    here.add_beacon(beacon(2, TRAINERS[0], setting=setting), CLOSED_S - 4.9)
    assert here.left_out(choices(dealt), CLOSED_S) == ()
    assert here.left_out(choices(dealt), CLOSED_S + 0.1) != ()


def test_a_window_is_of_the_height_after_its_decision() -> None:
    assert window().height == FIVE.height + 1
    assert window(GENESIS).height == 1
