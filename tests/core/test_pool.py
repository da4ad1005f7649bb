from dataclasses import replace
from typing import Any

import pytest

from p2pd.core.checking import most_present
from p2pd.core.decision import Decision
from p2pd.core.hello import PeerRecord
from p2pd.core.ids import NetworkId, RevisionId, TermId
from p2pd.core.messages import Release, Report, Service
from p2pd.core.pool import AHEAD_MOST, AHEAD_PER_AUTHOR, MOST_PER_AUTHOR, Admission, Pool
from p2pd.core.signed import Signed
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.errors import RemoteError
from p2pd.io.keys import Ed25519Signer
from p2pd.wire.envelope import seal
from tests.cli.chains import key
from tests.core.builders import (
    REDUCERS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    all_present,
    beacon,
    choices,
    follow,
    leave,
    prevote,
    reduction,
    release,
    right_inputs,
    running,
    two_faces,
    update,
)

DEALT = running(trainers=2, reducers=2)
CHOSEN = choices(DEALT, [update(DEALT, one) for one in TRAINERS[:2]], all_present(DEALT, 2, 2))
NEXT = follow(DEALT, CHOSEN)
HEIGHT = 2


def pool(previous: Decision = DEALT) -> Pool:
    return Pool(SETTING, previous)


def proposal(height: int, who: Any, choices: bytes = b"", round_: int = 0) -> Signed[Proposal]:
    return seal(who, "proposal", SETTING.scope(height), Proposal(round_, -1, choices, ()))


def report(height: int, who: Any, metric: int = 0) -> Signed[Report]:
    return seal(who, "report", SETTING.scope(height), Report(DEALT.head, metric, 0, 1))


def evidence(height: int, who: Ed25519Signer, found: Evidence) -> Signed[Any]:
    return seal(who, "evidence", SETTING.scope(height), found)


BELONGING: dict[str, Signed[Any]] = {
    "vote": prevote(HEIGHT, VALIDATORS[0], None),
    "proposal": proposal(HEIGHT, VALIDATORS[0]),
    "report": report(HEIGHT, VALIDATORS[0]),
    "report of the height before": report(HEIGHT - 1, VALIDATORS[0]),
    "update": update(DEALT, TRAINERS[0]),
    "release": release(DEALT, TRAINERS[0]),
    "beacon": beacon(HEIGHT, STRANGER),
    "leave": leave(HEIGHT, STRANGER),
    "evidence": evidence(HEIGHT, VALIDATORS[0], two_faces(HEIGHT, VALIDATORS[1])),
    "reduction": reduction(DEALT, REDUCERS[0], NEXT.merged, bytes(32)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BELONGING)
def test_i03_what_belongs_here_is_held_once_and_a_replay_changes_nothing(name: str) -> None:
    signed, here = BELONGING[name], pool()
    assert here.admit(signed) is Admission.NEW
    before = dict(here.held)
    assert here.admit(signed) is Admission.KNOWN
    other_signature = replace(signed, signature=bytes(64))
    assert here.admit(other_signature) is Admission.KNOWN
    assert here.held == before
    assert here.inventory() == (signed.id,)


@pytest.mark.parametrize(
    "change",
    [
        {"network": NetworkId(bytes(32))},
        {"term": TermId(bytes(32))},
        {"experiment": "other"},
        {"revision": RevisionId(bytes(32))},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("name", BELONGING)
def test_i03_an_object_of_another_place_is_refused(name: str, change: dict[str, Any]) -> None:
    signed = BELONGING[name]
    with pytest.raises(RemoteError, match="another term or revision"):
        pool().admit(replace(signed, scope=replace(signed.scope, **change)))


REFUSED: dict[str, tuple[Signed[Any], str]] = {
    "vote": (prevote(HEIGHT, STRANGER, None), "no validator"),
    "proposal": (proposal(HEIGHT, TRAINERS[0]), "no validator"),
    "report": (report(HEIGHT, TRAINERS[0]), "no validator"),
    "evidence": (evidence(HEIGHT, TRAINERS[0], two_faces(1, VALIDATORS[1])), "no validator"),
    "evidence against nobody": (
        evidence(HEIGHT, VALIDATORS[0], two_faces(1, STRANGER)),
        "shows nothing",
    ),
    "vote ahead": (prevote(HEIGHT + 1, STRANGER, None), "no validator"),
    "proposal ahead": (proposal(HEIGHT + 1, STRANGER, bytes(1000)), "no validator"),
    "update without a lease": (update(DEALT, TRAINERS[2]), "holds no lease"),
    "update for another plan": (update(DEALT, TRAINERS[0], plan=NEXT.id), "another plan"),
    "release without a lease": (release(DEALT, TRAINERS[2]), "does not exist"),
    "release of another plan": (
        seal(TRAINERS[0], "release", SETTING.scope(HEIGHT), Release(NEXT.id, "")),
        "does not exist",
    ),
    "reduction": (
        reduction(DEALT, REDUCERS[2], NEXT.merged, bytes(32)),  # type: ignore[arg-type]
        "not drawn",
    ),
    "peer record": (
        seal(STRANGER, "peer-record", SETTING.scope(HEIGHT), PeerRecord("", (), 0)),
        "does not belong",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_i03_an_object_that_is_not_its_authors_to_send_is_refused(name: str) -> None:
    signed, words = REFUSED[name]
    here = pool()
    with pytest.raises(RemoteError, match=words):
        here.admit(signed)
    assert (here.held, here.ahead) == ({}, {})


def test_i03_what_comes_late_is_neither_held_nor_blamed() -> None:
    here = pool(NEXT)
    for name in ("vote", "proposal", "update", "release", "beacon", "leave"):
        assert here.admit(BELONGING[name]) is Admission.LATE
    assert here.held == {}


def test_reductions_and_reports_of_the_height_before_are_still_taken() -> None:
    here = pool(NEXT)
    assert NEXT.merged is not None
    assert here.admit(report(HEIGHT, VALIDATORS[1])) is Admission.NEW
    drawn = reduction(DEALT, REDUCERS[1], NEXT.merged, right_inputs(NEXT))
    assert here.admit(drawn) is Admission.NEW


def test_i11_a_suspended_validator_is_no_longer_heard() -> None:
    liar = VALIDATORS[0]
    ended = follow(DEALT, choices(DEALT, (), all_present(DEALT), evidence=(two_faces(1, liar),)))
    here = pool(ended)
    # Whoever passed it on may not have the decision yet: nobody is blamed.
    for late in (
        prevote(HEIGHT + 1, liar, None),
        report(HEIGHT, liar),
        prevote(HEIGHT + 2, liar, None),
    ):
        assert here.admit(late) is Admission.SUSPENDED
    assert (here.held, here.ahead) == ({}, {})
    assert pool(ended).admit(prevote(HEIGHT + 1, VALIDATORS[1], None)) is Admission.NEW


def test_i09_of_votes_the_newest_are_held() -> None:
    here = pool()
    votes = [prevote(HEIGHT, VALIDATORS[0], None, n) for n in range(MOST_PER_AUTHOR["vote"] + 5)]
    assert {here.admit(vote) for vote in votes} == {Admission.NEW}
    assert here.inventory() == tuple(vote.id for vote in votes[5:])


@pytest.mark.parametrize(
    "objects",
    [
        [beacon(HEIGHT, TRAINERS[0]), beacon(HEIGHT, TRAINERS[0], Service.REDUCE)],
        [update(DEALT, TRAINERS[0], steps=n) for n in (1, 2, 3)],
        [report(HEIGHT, VALIDATORS[0], n) for n in (1, 2)],
    ],
    ids=["beacons", "updates", "reports"],
)
def test_i09_one_author_fills_no_more_than_its_place(objects: list[Signed[Any]]) -> None:
    here = pool()
    *first, last = objects
    assert {here.admit(one) for one in first} == {Admission.NEW}
    # Two nodes may hold different ones: whoever passes the other on is not at fault.
    assert here.admit(last) is Admission.FULL
    assert here.inventory() == tuple(one.id for one in first)


def test_i09_a_crowd_of_beacons_has_its_limit() -> None:
    here = pool()
    most = 2 * SETTING.revision.schedule.max_roster + 64
    crowd = [beacon(HEIGHT, key(f"crowd {n}")) for n in range(most + 1)]
    assert [here.admit(one) for one in crowd] == [Admission.NEW] * most + [Admission.FULL]


def test_i09_a_crowd_of_leaves_has_its_limit_and_drowns_no_leave_of_one_with_a_lease() -> None:
    here = pool()
    most = most_present(SETTING.revision.schedule)
    crowd = [leave(HEIGHT, key(f"crowd {n}")) for n in range(most + 1)]
    assert [here.admit(one) for one in crowd] == [Admission.NEW] * most + [Admission.FULL]
    assert here.admit(leave(HEIGHT, TRAINERS[0])) is Admission.NEW


def test_a_leave_of_the_height_before_is_kept_and_taken_where_its_author_has_a_lease() -> None:
    here, gone = pool(), leave(HEIGHT, TRAINERS[0])
    for one in (gone, leave(HEIGHT, STRANGER)):
        assert here.admit(one) is Admission.NEW
    here.advance(NEXT)
    assert here.inventory() == (gone.id,)
    late = pool(NEXT)
    assert late.admit(leave(HEIGHT, STRANGER)) is Admission.LATE
    assert late.admit(gone) is Admission.NEW
    assert late.admit(leave(HEIGHT - 1, TRAINERS[1])) is Admission.LATE


def test_an_object_of_the_next_height_waits_and_comes_back() -> None:
    here = pool()
    early: list[Signed[Any]] = [prevote(HEIGHT + 1, VALIDATORS[0], None), update(NEXT, TRAINERS[0])]
    assert [here.admit(one) for one in early] == [Admission.AHEAD] * 2
    assert here.inventory() == ()
    assert here.admit(early[0]) is Admission.KNOWN
    assert here.advance(NEXT) == early
    assert [here.admit(one) for one in early] == [Admission.NEW] * 2
    assert here.admit(prevote(HEIGHT + 3, VALIDATORS[0], None)) is Admission.LATE


def test_i03_what_waited_without_right_does_not_come_back() -> None:
    here = pool()
    stranger, other_plan = update(NEXT, STRANGER), update(NEXT, TRAINERS[0], plan=DEALT.id)
    assert [here.admit(one) for one in (stranger, other_plan)] == [Admission.AHEAD] * 2
    assert here.advance(NEXT) == []
    assert here.ahead == {}


def test_i09_what_waits_is_bounded_by_author_and_in_all() -> None:
    here = pool()
    flood = [prevote(HEIGHT + 1, VALIDATORS[0], None, n) for n in range(AHEAD_PER_AUTHOR + 3)]
    assert {here.admit(one) for one in flood} == {Admission.AHEAD}
    assert len(here.ahead) == AHEAD_PER_AUTHOR
    for n in range(AHEAD_MOST + 5):
        here.admit(beacon(HEIGHT + 1, key(f"crowd {n}")))
    assert len(here.ahead) == AHEAD_MOST


def test_after_a_height_only_reductions_and_reports_of_it_are_kept() -> None:
    here = pool()
    for signed in BELONGING.values():
        here.admit(signed)
    here.advance(NEXT)
    assert set(here.inventory()) == {BELONGING["report"].id, BELONGING["reduction"].id}


def test_a_neighbour_is_sent_what_it_lacks() -> None:
    here = pool()
    for name in ("vote", "update", "beacon"):
        here.admit(BELONGING[name])
    lacks = here.missing((BELONGING["vote"].id, BELONGING["report"].id))
    assert lacks == [BELONGING["update"], BELONGING["beacon"]]


def test_a_reduction_of_a_height_that_ended_without_a_merge_is_late_and_nobodys_fault() -> None:
    """Its author may have merged while the others decided that there was nothing to merge."""
    idle = reduction(DEALT, REDUCERS[0], NEXT.merged, bytes(32))  # type: ignore[arg-type]
    assert pool().admit(idle) is Admission.NEW
    after = pool(follow(DEALT, choices(DEALT)))
    assert after.admit(idle) is Admission.LATE
    assert after.inventory() == ()


def test_nobody_offers_a_reduction_that_has_nothing_to_be_held_against() -> None:
    here = pool()
    idle, kept = BELONGING["reduction"], BELONGING["report"]
    assert [here.admit(one) for one in (idle, kept)] == [Admission.NEW] * 2
    here.advance(follow(DEALT, choices(DEALT)))
    assert here.inventory() == (kept.id,)


def test_i03_a_late_reduction_by_a_peer_that_was_not_drawn_is_still_refused() -> None:
    here = pool(NEXT)
    assert NEXT.state.merge is not None
    with pytest.raises(RemoteError, match="not drawn"):
        here.admit(REFUSED["reduction"][0])
