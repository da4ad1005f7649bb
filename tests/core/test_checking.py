from dataclasses import replace
from typing import Any

import pytest

from p2pd.core.checking import (
    blocked_by,
    check_choices,
    check_verdicts,
    most_present,
    objected,
)
from p2pd.core.decision import Decision
from p2pd.core.derive import UNDECIDED
from p2pd.core.ids import ArtifactId, DecisionId, RevisionId, TermId, UpdateId
from p2pd.core.messages import Candidate, ChoiceKind, Choices, Service
from p2pd.core.signed import Signed
from p2pd.core.standing import newcomer
from p2pd.core.votes import Reason, ReasonKind, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.work import FULL, Verdict
from p2pd.errors import RemoteError
from tests.cli.chains import key
from tests.core.builders import (
    GENESIS,
    HEAD,
    REDUCERS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    all_present,
    beacon,
    choices,
    follow,
    prevote,
    reduction,
    right_inputs,
    running,
    setting_of,
    two_faces,
    update,
)

DEALT = running(trainers=3, reducers=2)
UPDATES = sorted((update(DEALT, one) for one in TRAINERS[:3]), key=lambda one: one.id)
CHOSEN = choices(DEALT, UPDATES, all_present(DEALT, 3, 2))
NEXT = follow(DEALT, CHOSEN)
MEMBERS = SETTING.members(())
DRAWN = [one for one in REDUCERS if one.peer in DEALT.state.plan.reducers]
assert NEXT.merged is not None
REDUCTIONS = tuple(reduction(DEALT, one, NEXT.merged, right_inputs(NEXT)) for one in DRAWN)


def accept(signed: Signed[Any], verdict: Verdict = Verdict.ACCEPTED) -> Candidate:
    return Candidate(signed, verdict, FULL)


def names(*updates: Signed[Any], kind: ReasonKind = ReasonKind.VERDICT) -> tuple[Reason, ...]:
    return tuple(Reason(kind, one.id, 0) for one in updates)


def ground(who: int, *reasons: Reason, round_: int = 0, height: int = 2) -> Signed[Vote]:
    return prevote(height, VALIDATORS[who], None, round_, *reasons)


DISPUTE = tuple(ground(n, *names(UPDATES[0])) for n in (0, 1))
SOUND: dict[str, tuple[Decision, Choices]] = {
    "a cohort": (DEALT, CHOSEN),
    "nothing": (DEALT, choices(DEALT)),
    "undecided": (DEALT, UNDECIDED),
    "idle": (GENESIS, choices(GENESIS, (), all_present(GENESIS, 2, 1))),
    "reductions": (NEXT, choices(NEXT, reductions=REDUCTIONS)),
    "blocked": (DEALT, choices(DEALT, UPDATES, kind=ChoiceKind.BLOCKED)),
    "disputed": (
        DEALT,
        choices(DEALT, [accept(UPDATES[0], Verdict.DISPUTED), *UPDATES[1:]], grounds=DISPUTE),
    ),
    "evidence": (DEALT, choices(DEALT, evidence=(two_faces(2, VALIDATORS[0]),))),
    "evidence of two": (
        DEALT,
        choices(DEALT, evidence=tuple(two_faces(1, one) for one in VALIDATORS[:2])),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_choices_are_taken(name: str) -> None:
    previous, chosen = SOUND[name]
    check_choices(SETTING, previous, chosen)


def moved(signed: Signed[Any], **scope: Any) -> Signed[Any]:
    return replace(signed, scope=replace(signed.scope, **scope))


def window(**fields: Any) -> Choices:
    return replace(CHOSEN, **fields)


OTHER_TERM = moved(UPDATES[0], term=TermId(bytes(32)))
FACES = two_faces(1, VALIDATORS[0])
SAME_TWICE = Evidence((FACES.votes[0], FACES.votes[0]), ())
TWO_KEYS = Evidence((FACES.votes[0], two_faces(1, VALIDATORS[1]).votes[1]), ())
OTHER_REVISION = Evidence(tuple(moved(v, revision=RevisionId(bytes(32))) for v in FACES.votes), ())
BROKEN: dict[str, tuple[Decision, Choices, str]] = {
    "kind": (DEALT, replace(choices(GENESIS), kind=ChoiceKind.IDLE), "IDLE proposed while"),
    "kind, idle": (GENESIS, replace(choices(GENESIS), kind=ChoiceKind.WINDOW), "WINDOW proposed"),
    "undecided with more": (DEALT, replace(UNDECIDED, presence=CHOSEN.presence), "carries nothing"),
    "idle cohort": (
        GENESIS,
        replace(CHOSEN, kind=ChoiceKind.IDLE),
        "an idle height has no cohort",
    ),
    "cohort order": (DEALT, window(cohort=CHOSEN.cohort[::-1]), "cohort must be ascending"),
    "an update twice": (DEALT, window(cohort=CHOSEN.cohort[:1] * 2), "cohort must be ascending"),
    "two updates of one lease": (
        DEALT,
        choices(DEALT, [UPDATES[0], update(DEALT, TRAINERS[0], steps=2), *UPDATES[1:]]),
        "trainers of a cohort",
    ),
    "no lease": (DEALT, choices(DEALT, [update(DEALT, TRAINERS[4])]), "holds no lease"),
    "replay of an older window": (
        NEXT,
        choices(NEXT, [UPDATES[0]]),
        "update for height 2, not 3",
    ),
    "replay, height rewritten": (
        NEXT,
        choices(NEXT, [moved(UPDATES[0], height=3)]),
        "update for another plan",
    ),
    "another term": (DEALT, choices(DEALT, [OTHER_TERM]), "update for height"),
    "disputed without grounds": (
        DEALT,
        choices(DEALT, [accept(UPDATES[0], Verdict.DISPUTED)]),
        "disputed without grounds",
    ),
    "disputed, second of a single list": (
        DEALT,
        choices(
            DEALT,
            [accept(UPDATES[1], Verdict.DISPUTED)],
            grounds=(ground(0, *names(UPDATES[0], UPDATES[1])),),
        ),
        "disputed without grounds",
    ),
    "presence order": (DEALT, window(presence=CHOSEN.presence[::-1]), "presence must be ascending"),
    "presence twice": (DEALT, window(presence=CHOSEN.presence[:1] * 2), "presence must be"),
    "beacon of another height": (
        DEALT,
        choices(DEALT, (), [beacon(1, TRAINERS[0])]),
        "beacon for height 1, not 2",
    ),
    "reduction where nothing was merged": (
        DEALT,
        window(reductions=REDUCTIONS[:1]),
        "not drawn",
    ),
    "reduction by another": (
        NEXT,
        choices(NEXT, reductions=(reduction(DEALT, STRANGER, NEXT.merged, bytes(32)),)),
        "not drawn",
    ),
    "reduction of this window": (
        NEXT,
        choices(NEXT, reductions=(reduction(NEXT, DRAWN[0], NEXT.merged, bytes(32)),)),
        "another window than the last",
    ),
    "reductions twice": (NEXT, choices(NEXT, reductions=REDUCTIONS[:1] * 2), "must be ascending"),
    "ground of a stranger": (
        DEALT,
        window(grounds=(prevote(2, STRANGER, None),)),
        "votes of members for this height",
    ),
    "ground of another height": (
        DEALT,
        window(grounds=(prevote(1, VALIDATORS[0], None),)),
        "votes of members for this height",
    ),
    "ground for a value": (
        DEALT,
        window(grounds=(prevote(2, VALIDATORS[0], DecisionId(bytes(32))),)),
        "grounds must be nil prevotes",
    ),
    "evidence of nothing": (DEALT, window(evidence=(SAME_TWICE,)), "shows nothing"),
    "evidence of two keys": (DEALT, window(evidence=(TWO_KEYS,)), "shows nothing"),
    "evidence against a stranger": (
        DEALT,
        window(evidence=(two_faces(1, STRANGER),)),
        "shows nothing",
    ),
    "evidence to come": (DEALT, window(evidence=(two_faces(3, VALIDATORS[0]),)), "to come"),
    "evidence of another revision": (DEALT, window(evidence=(OTHER_REVISION,)), "another revision"),
    "evidence twice": (DEALT, window(evidence=(FACES, FACES)), "evidence must be ascending"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_i03_choices_that_break_a_rule_are_refused(name: str) -> None:
    previous, chosen, words = BROKEN[name]
    with pytest.raises(RemoteError, match=words):
        check_choices(SETTING, previous, chosen)


def test_i07_a_replayed_update_counts_nothing_even_where_its_place_is_not_checked() -> None:
    replay = choices(NEXT, [UPDATES[0]])
    counted = follow(NEXT, replay)
    assert counted.state.progress.samples == NEXT.state.progress.samples
    with pytest.raises(RemoteError):
        check_choices(SETTING, NEXT, replay)


def test_i11_a_beacon_from_quarantine_is_refused() -> None:
    row = replace(newcomer(TRAINERS[0].peer, SETTING.revision.schedule), quarantined_until=3)
    previous = replace(DEALT, state=replace(DEALT.state, standing=(row,)))
    with pytest.raises(RemoteError, match="quarantine"):
        check_choices(SETTING, previous, CHOSEN)
    served = replace(DEALT.state, standing=(replace(row, quarantined_until=2),))
    check_choices(SETTING, replace(DEALT, state=served), CHOSEN)


def test_i01_evidence_that_was_acted_on_is_not_evidence_again() -> None:
    again = two_faces(2, VALIDATORS[0])
    for field in ("suspended", "pending"):
        known: Any = {field: (VALIDATORS[0].peer,)}
        previous = replace(DEALT, state=replace(DEALT.state, **known))
        with pytest.raises(RemoteError, match="nothing new"):
            check_choices(SETTING, previous, choices(DEALT, evidence=(again,)))


def test_a_vote_of_a_suspended_validator_is_no_ground() -> None:
    previous = replace(DEALT, state=replace(DEALT.state, suspended=(VALIDATORS[0].peer,)))
    with pytest.raises(RemoteError, match="votes of members"):
        check_choices(SETTING, previous, window(grounds=(ground(0),)))


def test_i09_the_crowd_in_a_proposal_has_its_limit() -> None:
    setting = setting_of(max_roster=1)
    most = most_present(setting.revision.schedule)
    assert most == 66
    dealt = running(1, 0, setting)
    crowd = [beacon(2, key(f"crowd {n}"), Service.TRAIN, setting) for n in range(most + 1)]
    check_choices(setting, dealt, choices(dealt, (), crowd[:most]))
    with pytest.raises(RemoteError, match="67 beacons exceed the limit of 66"):
        check_choices(setting, dealt, choices(dealt, (), crowd))


def many(count: int) -> list[Signed[Any]]:
    return [update(DEALT, TRAINERS[0], steps=n + 1, samples=1000) for n in range(count)]


@pytest.mark.parametrize(("cohort", "few"), [(1, 1), (16, 1), (31, 1), (32, 2), (64, 4)])
def test_one_liar_drops_few_of_a_cohort(cohort: int, few: int) -> None:
    updates = many(8)
    grounds = (ground(0, *names(*updates)), ground(0, *names(*updates[::-1]), round_=1))
    assert objected(grounds, MEMBERS, cohort) == {one.id for one in updates[:few]}


def test_what_weight_a_objects_to_is_dropped_for_any_reason_of_the_two() -> None:
    assert MEMBERS.attention == 2
    updates = many(4)
    grounds = (
        ground(0, *names(updates[1], updates[3])),
        ground(1, *names(updates[0], updates[3], kind=ReasonKind.UNFETCHABLE)),
    )
    assert objected(grounds, MEMBERS, 4) == {updates[n].id for n in (0, 1, 3)}
    twice_by_one = (ground(0, *names(*updates)), ground(0, *names(updates[2]), round_=1))
    assert objected(twice_by_one, MEMBERS, 4) == {updates[0].id}


@pytest.mark.parametrize(
    "kind", [ReasonKind.OMITTED, ReasonKind.ABSENT, ReasonKind.CANARY, ReasonKind.SLOW]
)
def test_other_reasons_drop_nothing(kind: ReasonKind) -> None:
    grounds = tuple(ground(n, *names(UPDATES[0], kind=kind)) for n in range(4))
    assert objected(grounds, MEMBERS, 3) == frozenset()


def test_a_head_is_blocked_by_weight_a_against_this_very_head() -> None:
    canary = Reason(ReasonKind.CANARY, HEAD, 0)
    other = Reason(ReasonKind.CANARY, ArtifactId(bytes(32)), 0)
    assert blocked_by((ground(0, canary), ground(1, canary)), HEAD, MEMBERS)
    assert not blocked_by((ground(0, canary), ground(1, other)), HEAD, MEMBERS)
    assert not blocked_by((ground(0, canary), ground(0, canary, round_=1)), HEAD, MEMBERS)
    assert not blocked_by((), HEAD, MEMBERS)


def test_i05_verdicts_are_what_the_validator_found_itself() -> None:
    cohort = (
        accept(UPDATES[0]),
        accept(UPDATES[1], Verdict.NONFINITE),
        accept(UPDATES[2], Verdict.DISPUTED),
    )
    found = {UpdateId(one.id): Verdict.ACCEPTED for one in UPDATES}
    (reason,) = check_verdicts(window(cohort=cohort), found)
    assert reason == Reason(ReasonKind.VERDICT, UPDATES[1].id, int(Verdict.ACCEPTED))
    found[UpdateId(UPDATES[1].id)] = Verdict.NONFINITE
    assert check_verdicts(window(cohort=cohort), found) == ()
    found[UpdateId(UPDATES[0].id)] = Verdict.LAYOUT
    (reason,) = check_verdicts(window(cohort=cohort), found)
    assert reason == Reason(ReasonKind.VERDICT, UPDATES[0].id, int(Verdict.LAYOUT))
