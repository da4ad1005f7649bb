"""Trainers and reducers of whole fleets that leave, and what it costs the others. Seconds are virtual."""

from dataclasses import dataclass

import pytest
import trio

from p2pd.core.decision import Decision, Outcome, PlanState
from p2pd.sim.faults import Crash, Fault, FaultSet, Leaving
from p2pd.sim.fleet import SimFleet
from p2pd.sim.liars import Lie
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FleetShape
from p2pd.sim.suite import run_seed

LIMIT_S = 1000.0
AWAY_S = 30.0
MOMENTS_S = (6.0, 7.0, 8.0, 9.0, 10.0)
"""One of them while it trains, one while there is a vote."""


@dataclass(frozen=True, slots=True)
class Seen:
    longest_s: float
    """That any height took while somebody was away."""
    chain: dict[int, Decision]
    violations: int
    deadline_s: float


def lived(fault: Fault, trainers: int = 2, reducers: int = 0, lookahead: int = 0) -> Seen:
    found: list[Seen] = []
    shape = FleetShape(
        windows=12,
        trainers=trainers,
        reducers=reducers,
        lookahead=lookahead,
        faults=FaultSet.NONE,
    )

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(1, shape, nursery)
            fleet.faults = [fault]
            await fleet.run()
            fleet.end()
            checkers = fleet.checkers
            begun_s = {h: min(at.values()) for h, at in checkers.windows.opened_s.items()}
            took_s = [
                begun_s[height + 1] - at_s
                for height, at_s in begun_s.items()
                if height + 1 in begun_s and fault.from_s < begun_s[height + 1] < fault.until_s
            ]
            schedule = fleet.revision.revision.schedule
            found.append(
                Seen(
                    max(took_s),
                    dict(checkers.chain),
                    len(checkers.violations),
                    schedule.deadline_ms / 1000,
                )
            )
            nursery.cancel_scope.cancel()

    assert run_seeded(1, main, LIMIT_S)
    return found[0]


@pytest.mark.parametrize("lookahead", [0, 1])
@pytest.mark.parametrize("at_s", MOMENTS_S)
def test_a_trainer_that_leaves_holds_up_no_height(at_s: float, lookahead: int) -> None:
    seen = lived(Leaving(at_s, at_s + AWAY_S, "trainer2"), lookahead=lookahead)
    assert seen.violations == 0
    assert seen.longest_s < seen.deadline_s / 2


def test_one_that_dies_without_a_word_holds_them_up_until_the_deadline() -> None:
    for at_s in MOMENTS_S:
        seen = lived(Crash(at_s, at_s + AWAY_S, "trainer2", silent=False))
        assert seen.violations == 0
        assert seen.longest_s >= seen.deadline_s


def test_the_last_trainer_that_leaves_ends_in_an_idle_plan_and_wakes_it_when_it_is_back() -> None:
    seen = lived(Leaving(8.0, 8.0 + AWAY_S, "trainer1"), trainers=1)
    assert seen.violations == 0
    idle = [h for h, one in seen.chain.items() if one.state.plan.state is PlanState.IDLE]
    assert 0 < max(idle) < max(seen.chain)
    last = max(seen.chain)
    assert seen.chain[last].state.plan.state is PlanState.FINISHED
    assert seen.chain[last].header.outcome is Outcome.PROMOTED


def test_a_reducer_that_leaves_is_drawn_no_more() -> None:
    away = Leaving(8.0, 8.0 + AWAY_S, "reducer1")
    seen = lived(away, reducers=1)
    assert seen.violations == 0
    assert seen.longest_s < seen.deadline_s / 2
    drawn = [bool(one.state.plan.reducers) for one in seen.chain.values()]
    assert any(drawn)
    assert not all(drawn[3:])


@pytest.mark.parametrize("seed", range(2))
def test_who_says_to_one_validator_that_it_leaves_and_works_on_changes_nothing(seed: int) -> None:
    liars = (("trainer2", Lie.FAREWELL), ("trainer3", Lie.FAREWELL))
    shape = FleetShape(validators=4, quorum=3, windows=5, faults=FaultSet.NONE, liars=liars)
    result = run_seed(shape, seed)
    assert result.violations == ()


def test_a_trainer_that_is_paused_costs_nobody_a_deadline_and_comes_back() -> None:
    found: list[tuple[int, dict[int, Decision], bool]] = []
    shape = FleetShape(windows=12, trainers=2, reducers=0, faults=FaultSet.NONE)

    async def pause(fleet: SimFleet) -> None:
        await trio.sleep(MOMENTS_S[0])
        node = fleet.lives["trainer2"].node
        assert node is not None
        node.pause("its owner plays")
        await trio.sleep(AWAY_S / 3)
        node.pause("")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(1, shape, nursery)
            nursery.start_soon(pause, fleet)
            ended = await fleet.run()
            fleet.end()
            found.append((len(fleet.checkers.violations), dict(fleet.checkers.chain), ended))
            nursery.cancel_scope.cancel()

    assert run_seeded(1, main, LIMIT_S)
    violations, chain, ended = found[0]
    assert (violations, ended) == (0, True)
    rosters = [len(one.state.plan.roster) for _, one in sorted(chain.items())]
    outcomes = {one.header.outcome for one in chain.values()}
    assert outcomes <= {Outcome.PROMOTED, Outcome.IDLE}
    assert 1 in rosters[2:-1]  # while it was away
    assert rosters[-2] == 2
