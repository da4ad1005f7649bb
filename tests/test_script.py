"""The script's side of driving a trainer, against a stand-in for the node."""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import trio

from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, TrainJob
from p2pd.errors import UnreachableError, WorkloadError
from p2pd.io.attached import AttachedWorker, Script
from p2pd.io.control import Upgrade, serve_control
from p2pd.io.worker_child import WorkerSettings
from p2pd.script import ContinuousSession, attach
from p2pd.workload.protocol import (
    BuildCall,
    Call,
    Certified,
    Failure,
    InitialCall,
    Outcome,
    Request,
    TrainCall,
)
from p2pd.workload.session import Session

DIGITS = BuildCall("p2pd.workloads.digits", '{"hidden": 8}', 1)
LIMIT_S = 60.0
Play = Callable[["Node"], Awaitable[None]]


class Node:
    """A stand-in: asks what a test says, in order."""

    def __init__(self, directory: Path, script: Script) -> None:
        self.directory = directory
        self.script = script

    async def build(self) -> None:
        await self.script.listens.wait()
        await self.script.send(Request(1, Call.BUILD, encode(DIGITS)))
        assert (await self.script.answer(1)).outcome is Outcome.DONE

    async def lease(self, height: int) -> None:
        output = self.directory / f"update-{height}"
        job = TrainJob(
            height, ArtifactId(bytes(32)), (height,), 32, Progress(0, 0, 0, 0, 0), height
        )
        paths = map(os.fsencode, (self.directory / "base", output, self.directory / "own"))
        await self.script.send(Request(height, Call.TRAIN, encode(TrainCall(job, *paths))))

    async def outcome(self, height: int) -> Outcome:
        return (await self.script.answer(height)).outcome

    async def tell(self, height: int) -> None:
        told = Certified(height, height, True, "", 250_000, bytes(32), 900_000, 32, 4, 2_000_000)
        await self.script.send(Request(0, Call.CERTIFIED, encode(told)))


def driven(directory: Path, play: Play, work: Callable[[], Any], lookahead: int = 0) -> Any:
    """What work, which blocks, gives beside a node that plays."""
    torch.set_num_threads(1)
    Session(DIGITS).initial(InitialCall(os.fsencode(directory / "base")))
    greeting = {"module": DIGITS.module, "paths": [], "data": [], "lookahead": lookahead}

    async def serve(stream: trio.SocketStream) -> None:
        script = Script(stream, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(script.attend)
            await play(Node(directory, script))
            await script.ended.wait()
            await script.leave()

    async def answer(_: dict[str, Any]) -> Upgrade:
        return Upgrade({**greeting, "share": 1.0}, serve)

    async def main() -> Any:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_control, directory, answer)
                try:
                    return await trio.to_thread.run_sync(work)
                finally:
                    nursery.cancel_scope.cancel()

    return trio.run(main)


def windows(directory: Path, count: int) -> list[int]:
    with attach(directory).continuous() as session:
        return [session.train_next_window().height for _ in range(count)]


def test_a_lease_that_comes_before_it_is_asked_for_waits(tmp_path: Path) -> None:
    seen = []

    async def play(node: Node) -> None:
        await node.build()
        await node.lease(2)
        assert await node.outcome(2) is Outcome.DONE
        await node.lease(3)
        seen.append((tmp_path / "update-3").exists())
        await node.tell(2)
        assert await node.outcome(3) is Outcome.DONE
        await node.tell(3)

    assert driven(tmp_path, play, partial(windows, tmp_path, 2)) == [2, 3]
    assert seen == [False]


def test_with_lookahead_the_next_lease_is_trained_while_the_first_is_decided(
    tmp_path: Path,
) -> None:
    async def play(node: Node) -> None:
        await node.build()
        for height in (2, 3):
            await node.lease(height)
            assert await node.outcome(height) is Outcome.DONE
        await node.tell(2)

    assert driven(tmp_path, play, partial(windows, tmp_path, 1), lookahead=1) == [2]


def test_a_lease_that_is_called_off_is_left_and_the_next_one_is_trained(tmp_path: Path) -> None:
    async def play(node: Node) -> None:
        await node.build()
        await node.lease(2)
        await node.script.send(Request(2, Call.CANCEL, b""))
        assert await node.outcome(2) is Outcome.CANCELLED
        await node.lease(3)
        assert await node.outcome(3) is Outcome.DONE
        await node.tell(3)

    assert driven(tmp_path, play, partial(windows, tmp_path, 1)) == [3]


def test_a_failed_lease_is_told_to_both_and_the_next_call_begins_anew(tmp_path: Path) -> None:
    def work() -> int:
        with attach(tmp_path).continuous() as session:
            before = session.workload
            with pytest.raises(WorkloadError, match="microshard 99 of 32 samples lies outside"):
                session.train_next_window()
            height = session.train_next_window().height
            assert session.workload is not before
            return height

    async def play(node: Node) -> None:
        await node.build()
        await node.lease(99)
        assert await node.outcome(99) is Outcome.FAILED
        await node.lease(3)
        assert await node.outcome(3) is Outcome.DONE
        await node.tell(3)

    assert driven(tmp_path, play, work) == 3


def test_what_a_node_refuses_is_what_the_script_is_told(tmp_path: Path) -> None:
    async def play(node: Node) -> None:
        await node.build()
        refusal = Failure("workload digits here has another source digest")
        await node.script.send(Request(0, Call.REFUSED, encode(refusal)))

    def work() -> None:
        with pytest.raises(WorkloadError, match="another source digest"):
            windows(tmp_path, 1)

    driven(tmp_path, play, work)


def test_a_node_that_ends_is_said_with_its_directory(tmp_path: Path) -> None:
    async def play(node: Node) -> None:
        await node.build()
        await node.script.leave()

    def work() -> None:
        with pytest.raises(UnreachableError) as ended:
            windows(tmp_path, 1)
        assert str(tmp_path) in str(ended.value)

    driven(tmp_path, play, work)


def test_nothing_decided_in_time_is_said_and_the_session_goes_on(tmp_path: Path) -> None:
    go = trio.Event()

    def work() -> int:
        with attach(tmp_path).continuous() as session:
            with pytest.raises(TimeoutError, match="no window was decided in that time"):
                session.train_next_window(timeout_s=0.05)
            trio.from_thread.run_sync(go.set)
            return session.train_next_window(timeout_s=LIMIT_S).height

    async def play(node: Node) -> None:
        await node.build()
        await go.wait()
        await node.lease(2)
        await node.outcome(2)
        await node.tell(2)

    assert driven(tmp_path, play, work) == 2


def test_an_outcome_is_in_the_units_of_people(tmp_path: Path) -> None:
    def work() -> Any:
        session: ContinuousSession = attach(tmp_path).continuous()
        outcome = session.train_next_window()
        session.close()
        with pytest.raises(UnreachableError, match="the session is closed"):
            session.train_next_window()
        return outcome

    async def play(node: Node) -> None:
        await node.build()
        await node.tell(7)

    outcome = driven(tmp_path, play, work)
    assert (outcome.weight, outcome.metric, outcome.loss) == (0.25, 0.9, 2.0)
    assert (outcome.accepted, outcome.head) == (True, "00" * 32)


def test_a_trainer_without_a_script_gives_its_lease_back_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        worker = AttachedWorker(WorkerSettings(module="x"), None)  # type: ignore[arg-type]  # not reached
        job = TrainJob(1, ArtifactId(bytes(32)), (1,), 32, Progress(0, 0, 0, 0, 0), 1)
        with pytest.raises(WorkloadError, match="no script drives it"):
            await worker.train(job)

    trio.run(main)
