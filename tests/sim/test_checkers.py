"""Each checker is fed what must never happen, and says so."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from p2pd.core.decision import Decision, Record
from p2pd.core.derive import merge_job
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, RevisionId
from p2pd.core.messages import Candidate
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Reason, ReasonKind, Step, Vote
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import FULL, Inspection, Merged, Verdict
from p2pd.sim.checkers import Checkers, Violation
from p2pd.wire.envelope import seal
from tests.cli.chains import certify
from tests.core.builders import (
    GENESIS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    merge,
    running,
    update,
)

FIRST = running(trainers=2)
UPDATES = [update(FIRST, TRAINERS[n]) for n in range(2)]
SECOND = follow(FIRST, choices(FIRST, UPDATES, all_present(FIRST)))
OTHER = follow(FIRST, choices(FIRST, UPDATES[:1], all_present(FIRST)))
NAMES = {signer.peer: f"validator{n + 1}" for n, signer in enumerate(VALIDATORS)}


def record(decision: Decision, signers: int = 3) -> Record:
    return Record(decision, certify(SETTING, decision, VALIDATORS[:signers]))


def checkers(names: dict[PeerId, str] | None = None) -> Checkers:
    # An hour between one look at the clock and the next: every window is over.
    made = Checkers(7, SETTING, names or {}, count(0.0, 3600.0).__next__)
    made.on_opened("validator1", GENESIS)
    made.on_adopted("validator1", record(FIRST))
    assert made.violations == []
    return made


def found(made: Checkers) -> list[tuple[str, int]]:
    assert all(violation.seed == 7 and violation.what for violation in made.violations)
    return [(violation.invariant, violation.height) for violation in made.violations]


def vote(value: DecisionId | None, **more: Any) -> Signed[Vote]:
    content = Vote(Step.PREVOTE, 0, value, NO_ROUND, more.get("reasons", ()))
    return seal(VALIDATORS[0], "vote", SETTING.scope(2), content)


def proposal(chosen: bytes) -> Signed[Proposal]:
    return seal(VALIDATORS[2], "proposal", SETTING.scope(2), Proposal(0, NO_ROUND, chosen, ()))


def test_a_chain_that_holds_raises_nothing() -> None:
    made = checkers()
    made.on_adopted("validator1", record(SECOND))
    made.on_adopted("viewer1", record(FIRST))
    made.on_adopted("viewer1", record(SECOND))
    made.on_opened("viewer1", SECOND)
    made.on_end({"validator1": SECOND, "viewer1": SECOND}, stalled="")
    assert made.violations == []
    assert made.decided == {0: GENESIS.id, 1: FIRST.id, 2: SECOND.id}


def test_i01_two_decisions_of_one_height_are_seen() -> None:
    made = checkers()
    made.on_adopted("validator1", record(SECOND))
    made.on_adopted("viewer1", record(OTHER))
    assert ("I1", 2) in found(made)


@pytest.mark.parametrize("signers", [0, 1, 2])
def test_i02_a_certificate_below_the_quorum_is_seen(signers: int) -> None:
    made = checkers()
    made.on_adopted("validator1", record(SECOND, signers))
    assert found(made) == [("I2", 2), ("I2", 2)]


def test_i02_votes_of_strangers_of_other_heights_and_said_twice_weigh_nothing() -> None:
    made = checkers()
    good = certify(SETTING, SECOND, VALIDATORS[:2])
    foreign = certify(SETTING, SECOND, [STRANGER])
    elsewhere = seal(
        VALIDATORS[2],
        "vote",
        SETTING.scope(3),
        Vote(Step.PRECOMMIT, 0, SECOND.id, NO_ROUND, ()),
    )
    padded = (*good.precommits, *good.precommits, *foreign.precommits, elsewhere)
    made.on_adopted("validator1", Record(SECOND, replace(good, precommits=padded)))
    assert len(found(made)) == 2


def test_i02_a_false_signature_weighs_nothing() -> None:
    made = checkers()
    good = certify(SETTING, SECOND, VALIDATORS[:3])
    forged = replace(good.precommits[0], signature=bytes(64))
    made.on_adopted(
        "validator1", Record(SECOND, replace(good, precommits=(forged, *good.precommits[1:])))
    )
    assert found(made) == [("I2", 2)]


def test_i02_a_decision_without_a_certificate_is_seen() -> None:
    made = checkers()
    made.on_adopted("validator1", Record(SECOND, None))
    assert found(made) == [("I2", 2)]


def test_i02_a_node_that_ends_on_a_lineage_of_its_own_is_seen() -> None:
    made = checkers()
    made.on_end({"validator1": FIRST, "viewer1": SECOND}, stalled="")
    assert found(made) == [("I2", 2)]


def test_i03_an_object_of_another_revision_that_is_taken_is_seen() -> None:
    made, mine = checkers(), vote(None)
    made.on_heard("validator1", mine, held=True)
    other = replace(mine, scope=replace(mine.scope, revision=RevisionId(bytes(32))))
    made.on_heard("validator1", other, held=False)
    assert made.violations == []
    made.on_heard("validator1", other, held=True)
    assert found(made) == [("I3", 2)]


def test_what_is_found_of_two_revisions_is_in_one_list() -> None:
    made = checkers()
    other = Checkers(7, SETTING, {}, label="r2: ")
    other.watch_with(made)
    other.fail("I1", 3, "it went wrong")
    assert made.violations == [Violation(7, "I1", 3, "r2: it went wrong")]


def test_i04_another_head_under_one_height_is_seen() -> None:
    made = checkers()
    made.on_adopted("validator1", record(SECOND))
    made.on_adopted("viewer1", record(FIRST))
    made.on_adopted("viewer1", record(OTHER))
    assert found(made) == [("I1", 2), ("I4", 2)]


def test_i05_a_precommit_without_own_inspection_is_seen() -> None:
    made = checkers(NAMES)
    made.on_adopted("validator1", record(SECOND))
    assert found(made) == [("I5", 2)] * 6


def test_i05_own_inspections_are_enough() -> None:
    made = checkers(NAMES)
    for name in NAMES.values():
        for one in UPDATES:
            artifact = one.content.artifact
            made.on_inspected(name, Inspection(artifact, Verdict.ACCEPTED, ""))
    made.on_adopted("validator1", record(SECOND))
    assert made.violations == []


def test_i06_one_cohort_with_two_merges_is_seen() -> None:
    made = checkers()
    chosen = choices(FIRST, UPDATES)
    job, merged = merge_job(SETTING, FIRST, chosen.cohort), merge(SETTING, FIRST, chosen)
    assert job is not None
    assert merged is not None
    made.on_merged("validator1", job, merged)
    made.on_merged("validator2", job, merged)
    assert made.violations == []
    other: Merged = replace(merged, head=ArtifactId(bytes(32)))
    made.on_merged("validator3", job, other)
    assert found(made) == [("I6", 0)]


def test_i07_claiming_more_than_the_lease_is_seen() -> None:
    greedy = Candidate(update(FIRST, TRAINERS[0], samples=10**6), Verdict.ACCEPTED, FULL)
    made = checkers()
    made.on_adopted("validator1", record(follow(FIRST, choices(FIRST, [greedy]))))
    assert ("I7", 2) in found(made)


def test_i07_a_microshard_counted_twice_is_seen() -> None:
    made = checkers()
    lease = FIRST.state.plan.roster[0]
    made.counted[0] = {lease.shards[0]}
    made.on_adopted("validator1", record(SECOND))
    assert ("I7", 2) in found(made)


def test_i07_a_microshard_that_was_dealt_and_is_nowhere_is_seen() -> None:
    made = checkers()
    leases = SECOND.state.plan.roster
    cut = replace(leases[0], shards=leases[0].shards[1:])
    plan = replace(SECOND.state.plan, roster=(cut, *leases[1:]))
    lossy = replace(SECOND, state=replace(SECOND.state, plan=plan))
    made.on_adopted("validator1", record(lossy))
    assert found(made) == [("I7", 2)]


def test_i07_an_epoch_that_ends_with_microshards_left_is_seen() -> None:
    made = checkers()
    progress = replace(SECOND.state.progress, epoch=1, cursor=0)
    hasty = replace(SECOND, state=replace(SECOND.state, progress=progress))
    made.on_adopted("validator1", record(hasty))
    assert found(made) == [("I7", 2)]


@pytest.mark.parametrize(
    "other",
    [
        vote(None),
        vote(None, reasons=(Reason(ReasonKind.SLOW, b"", 0),)),
        vote(DecisionId(bytes([9]) * 32)),
    ],
)
def test_i10_a_contradicting_vote_is_seen(other: Signed[Vote]) -> None:
    made = checkers()
    first = vote(DecisionId(bytes([1]) * 32))
    made.on_sent(first)
    made.on_sent(first)
    assert made.violations == []
    made.on_sent(other)
    assert found(made) == [("I10", 2)]


def test_i10_a_second_proposal_of_one_round_is_seen() -> None:
    made = checkers()
    made.on_sent(proposal(b"one"))
    made.on_sent(vote(None))
    assert made.violations == []
    made.on_sent(proposal(b"two"))
    assert found(made) == [("I10", 2)]


def test_i10_a_vote_that_is_shown_before_it_is_stored_is_seen_and_one_that_was_out_is_not() -> None:
    made, ballot = checkers(), vote(None)
    made.on_showing("validator1", ballot, ballot.encoded)
    assert made.violations == []
    made.on_showing("validator1", ballot, b"")
    assert found(made) == [("I10", 2)]
    made.on_sent(ballot)
    made.on_showing("validator1", ballot, b"")
    assert found(made) == [("I10", 2)]


def test_i10_a_decision_that_a_restart_lost_is_seen() -> None:
    made = checkers()
    made.on_opened("validator1", GENESIS)
    assert found(made) == [("I10", 0)]


def test_i10_a_tip_that_goes_back_or_jumps_is_seen() -> None:
    made = checkers()
    made.on_adopted("validator1", record(FIRST))
    assert found(made) == [("I10", 1)]
    made.on_leapt("validator1", record(FIRST))
    assert found(made) == [("I10", 1), ("I10", 1)]


def test_liveness_no_end_in_time_is_seen() -> None:
    made = checkers()
    made.on_end({"validator1": FIRST}, stalled="no end, nothing decided in 150 s")
    assert made.violations == [
        Violation(7, "liveness", 1, "no end, nothing decided in 150 s: validator1 at 1")
    ]
