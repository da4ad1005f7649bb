"""Whole heights in which trainers leave."""

from p2pd.core.decision import Outcome, PlanState
from p2pd.core.encoding import decode
from p2pd.core.ids import PeerId
from p2pd.core.messages import Choices
from p2pd.core.votes import ReasonKind
from p2pd.core.window import LEAVE_HEARD_S
from tests.core.builders import TRAINERS, beacon, choices, leave, running
from tests.core.validator.council import Council
from tests.core.validator.stage import (
    DEADLINE_S,
    FIRST,
    a_proposal,
    chair,
    council,
    proposer,
    reasons,
    updates,
)

STAYS, GOES = TRAINERS[0], TRAINERS[1]


def rosters(all_: Council) -> list[set[PeerId]]:
    return [
        {lease.peer for lease in decision.state.plan.roster} for decision in all_.chairs[0].adopted
    ]


def test_a_trainer_that_leaves_holds_up_nobody_and_is_not_in_the_next_plan() -> None:
    all_ = council()
    all_.see(beacon(2, STAYS), beacon(2, GOES), updates()[0])
    all_.pass_time(2.0)
    all_.see(leave(2, GOES))
    assert not all_.chairs[0].adopted
    all_.pass_time(1.0)
    decision = all_.chairs[0].adopted[0]
    assert decision.header.outcome is Outcome.PROMOTED
    assert rosters(all_) == [{STAYS.peer}]
    assert {chair.machine.votes.view().round for chair in all_.chairs} == {0}


def test_a_validator_wakes_when_a_leave_begins_to_count() -> None:
    one = chair()
    one.see(updates()[0])
    one.pass_time(2.0)
    one.see(leave(2, GOES))
    assert one.machine.next_deadline_s() == 2.0 + LEAVE_HEARD_S
    one.pass_time(2.0 + LEAVE_HEARD_S - 0.01)
    assert one.machine.desk.closed_s is None
    one.pass_time(3.0)
    assert one.machine.desk.closed_s == 2.0 + LEAVE_HEARD_S


def test_a_proposer_that_alone_heard_a_leave_costs_one_round() -> None:
    """The network has lost what it passed on."""
    all_ = council()
    all_.see(beacon(2, STAYS), beacon(2, GOES))
    all_.pass_time(7.0)
    all_.chairs[proposer(2)].see(leave(2, GOES))
    all_.pass_time(1.0)
    all_.see(*updates())
    all_.pass_time(8.0)
    assert all_.chairs[0].adopted[0].header.outcome is Outcome.PROMOTED
    rounds = [
        vote.content.round for vote in all_.said if vote.kind == "vote" and vote.scope.height == 2
    ]
    assert max(rounds) == 1
    assert rosters(all_)[0] == {STAYS.peer, GOES.peer}


def test_a_beacon_of_one_that_left_may_be_included() -> None:
    one = chair(0)
    one.see(beacon(2, GOES), leave(2, GOES))
    one.pass_time(DEADLINE_S)
    one.see(a_proposal(choices(FIRST, (), [beacon(2, GOES)])))
    assert [vote.value is not None for vote in one.sent("vote")] == [True]
    assert ReasonKind.ABSENT not in {reason.kind for found in reasons(one) for reason in found}


def test_the_last_trainer_that_leaves_ends_in_an_idle_plan_and_wakes_it_when_it_is_back() -> None:
    all_ = Council(running(trainers=1))
    all_.start()
    all_.see(beacon(2, STAYS))
    all_.pass_time(2.0)
    all_.see(leave(2, STAYS))
    all_.pass_time(2.0)
    decision = all_.chairs[0].adopted[0]
    assert decision.header.outcome is Outcome.EMPTY
    assert decision.state.plan.state is PlanState.IDLE
    assert decode(Choices, decision.choices).presence == ()
    all_.pass_time(100.0)
    assert len(all_.chairs[0].adopted) == 1
    all_.see(beacon(3, STAYS))
    all_.pass_time(3.0)
    assert rosters(all_)[1:2] == [{STAYS.peer}]


def test_a_trainer_that_leaves_during_the_vote_holds_up_no_height() -> None:
    """Its presence was proposed: the next plan has a lease of it."""
    all_ = council()
    all_.see(beacon(2, STAYS), beacon(2, GOES))
    all_.pass_time(2.0)
    for each in all_.chairs:
        each.see(*updates())
        each.see(leave(2, GOES))
    all_.exchange()
    assert rosters(all_) == [{STAYS.peer, GOES.peer}]
    decision = all_.chairs[0].decision
    all_.see(beacon(3, STAYS), *updates(decision)[:1])
    all_.pass_time(2.0)
    assert rosters(all_) == [{STAYS.peer, GOES.peer}, {STAYS.peer}]
