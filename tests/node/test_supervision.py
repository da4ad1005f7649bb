"""What becomes of a background task that fails, alone and in a whole node."""

import logging
from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio

from p2pd.core.health import Health
from p2pd.errors import StoreError, UsageError
from p2pd.node.node import Node
from p2pd.node.supervision import (
    BACKOFF_MOST_S,
    STEADY_S,
    Supervisor,
    Task,
    TaskFailedError,
    bug_in,
    cause_of,
)
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import SimFleet
from p2pd.sim.lives import Life
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FleetShape

FULL = StoreError("ledger.sqlite: the disk is full")


def in_virtual_time(main: Callable[[], Awaitable[None]]) -> None:
    assert run_seeded(0, main, 3600.0)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "p2pd.tasks"]


def test_a_service_that_fails_starts_again_and_is_degraded_until_it_is_steady(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        health, starts = Health(), 0

        async def task() -> None:
            nonlocal starts
            starts += 1
            if starts <= 3:
                raise FULL
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(Supervisor(health, Random(1)).keep, "reports", task)
            while not health.troubles():  # noqa: ASYNC110 - it tells nobody
                await trio.sleep(0.001)
            assert health.troubles() == (
                "task reports: failed once, last with ledger.sqlite: the disk is full",
            )
            await trio.sleep(20.0)
            assert starts == 4
            assert "failed 3 times" in health.troubles()[0]
            await trio.sleep(STEADY_S)
            assert health.troubles() == ()
            nursery.cancel_scope.cancel()

    in_virtual_time(main)
    assert said(caplog) == [
        "task reports failed, and starts again: ledger.sqlite: the disk is full"
    ]


def test_a_service_that_fails_for_ever_is_logged_once_and_started_ever_more_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        starts: list[float] = []

        async def task() -> None:
            await trio.lowlevel.checkpoint()
            starts.append(trio.current_time())
            raise KeyError("peer")

        with trio.move_on_after(1800.0):
            await Supervisor(Health(), Random(1)).keep("discovery", task)
        assert 1800 / BACKOFF_MOST_S < len(starts) < 120

    in_virtual_time(main)
    assert said(caplog) == ["task discovery failed, and starts again: KeyError: 'peer'"]
    (record,) = [one for one in caplog.records if one.name == "p2pd.tasks"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None  # a bug, so its traceback is there


def test_a_service_that_comes_to_its_end_is_left_alone() -> None:
    async def main() -> None:
        health = Health()
        await Supervisor(health, Random(1)).keep("import", trio.lowlevel.checkpoint)
        assert health.troubles() == ()

    in_virtual_time(main)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_vital_task_that_fails_is_named_with_its_cause(wrapped: bool) -> None:
    bug = ValueError("no such step")
    vital = Supervisor(Health(), Random(1)).vital
    with pytest.raises(TaskFailedError) as caught, vital("role validator"):
        raise ExceptionGroup("nursery", [bug]) if wrapped else bug
    assert str(caught.value) == "task role validator failed: ValueError: no such step"
    assert bug_in(caught.value) is bug


def test_what_a_person_got_wrong_passes_a_vital_task_unchanged() -> None:
    vital = Supervisor(Health(), Random(1)).vital
    with pytest.raises(UsageError) as caught, vital("transport"):
        raise UsageError("the port is in use")
    assert str(caught.value) == "the port is in use"


def test_a_cause_is_one_line_and_no_bug_where_it_was_foreseen() -> None:
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [FULL, FULL]), OSError("gone")])
    assert cause_of(group) == "ledger.sqlite: the disk is full; OSError: gone"
    assert bug_in(ExceptionGroup("nursery", [FULL])) is None


class Sabotage(Supervisor):
    """Fails one service, in the middle of its work, now and then for a while."""

    def __init__(self, health: Health, dice: Random, victim: str) -> None:
        Supervisor.__init__(self, health, dice)
        self.victim = victim
        self.failed = 0
        self.seen: set[str] = set()

    async def keep(self, name: str, task: Task) -> None:
        self.seen.add(name)
        await Supervisor.keep(self, name, self._failing(task) if name == self.victim else task)

    def _failing(self, task: Task) -> Task:
        async def failing() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(task)
                await trio.sleep(3.0)
                if self.failed < 4:
                    self.failed += 1
                    raise ZeroDivisionError("sabotage")

        return failing


SERVICES = (
    "discovery",
    "governance",
    "diary",
    "reconciliation",
    "catching up",
    "reports",
    "relaying",
)


@pytest.mark.parametrize("victim", SERVICES)
def test_a_network_goes_on_whatever_service_fails_on_its_nodes(
    victim: str, caplog: pytest.LogCaptureFixture
) -> None:
    supervisors: list[Sabotage] = []

    class Fleet(SimFleet):
        def _node(self, life: Life) -> Node:
            node = SimFleet._node(self, life)
            node.supervision = Sabotage(node.health, Random(life.name), victim)
            supervisors.append(node.supervision)
            return node

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = Fleet(
                3,
                FleetShape(validators=1, quorum=1, trainers=1, windows=3, faults=FaultSet.NONE),
                nursery,
            )
            assert await fleet.run()
            fleet.end()
            assert not fleet.checkers.violations
            await trio.sleep(60.0)
            nursery.cancel_scope.cancel()

    assert run_seeded(3, main, 1200.0)
    assert supervisors
    assert all(one.seen == set(SERVICES) for one in supervisors)
    assert all(one.failed == 4 for one in supervisors)
    assert all(one._health.troubles() == () for one in supervisors)
    assert len(said(caplog)) == len(supervisors)
    assert set(said(caplog)) == {
        f"task {victim} failed, and starts again: ZeroDivisionError: sabotage"
    }
