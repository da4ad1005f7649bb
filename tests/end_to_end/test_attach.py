"""A script that drives its own trainer: real daemons, and the script in this process."""

import json
import signal
from functools import partial
from pathlib import Path

import pytest
import trio

import p2pd
from p2pd.daemon.local import LocalFleet, Member, revision_of
from p2pd.daemon.processes import status_of
from p2pd.daemon.publish import (
    CanarySettings,
    MergeSettings,
    PublishRequest,
    RevisionSettings,
    ScheduleSettings,
    publish,
)
from p2pd.errors import P2pError, UnreachableError
from p2pd.io.control import ask
from p2pd.io.keys import create_key
from p2pd.script import ContinuousSession, WindowOutcome

LIMIT_S = 120.0
MEMBERS = (Member("validator1", "validator"), Member("trainer1", "trainer", attached=True))


async def open_fleet(directory: Path) -> LocalFleet:
    record, authority = directory / "digits.revision.cbor", create_key(directory / "authority.key")
    fleet = LocalFleet(directory, "scripted", MEMBERS, record, 60.0)
    await publish(
        PublishRequest(
            genesis=fleet.found(authority, 1),
            signers=(authority,),
            out=record,
            revision=RevisionSettings(
                study="local",
                experiment="digits",
                name="r1",
                workload="p2pd.workloads.digits",
                config=json.dumps({"hidden": 8}),
            ),
            schedule=ScheduleSettings(lease_shards=2, max_lease_shards=2),
            merge=MergeSettings(),
            canary=CanarySettings(),
            log=lambda _: None,
        )
    )
    await fleet.start()
    return fleet


async def says(directory: Path, words: str) -> None:
    """Returns once the trainer says so of itself."""
    while True:
        status = await trio.to_thread.run_sync(status_of, directory)
        if status is not None and words in revision_of(status)["training"]["stage"]:
            return
        await trio.sleep(0.1)


async def train(session: ContinuousSession) -> WindowOutcome:
    return await trio.to_thread.run_sync(session.train_next_window)


def test_a_script_trains_windows_and_learns_what_became_of_them(tmp_path: Path) -> None:
    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            fleet = await open_fleet(tmp_path)
            try:
                await drive(fleet)
            finally:
                await fleet.stop()

    trio.run(main)


async def drive(fleet: LocalFleet) -> None:
    home = fleet.nodes[1].data_dir
    await says(home, "paused: no script drives it")
    trainer = p2pd.attach(home)
    with pytest.raises(P2pError, match="works on local/digits, not on"):
        await trio.to_thread.run_sync(trainer.continuous, "moons")
    session = await trio.to_thread.run_sync(trainer.continuous, "local/digits")
    with pytest.raises(P2pError, match=r"another script \(process \d+\) drives this trainer"):
        await trio.to_thread.run_sync(trainer.continuous, "digits")
    outcomes = [await train(session) for _ in range(2)]
    assert [one.accepted for one in outcomes] == [True] * 2
    assert [one.weight for one in outcomes] == [1.0] * 2
    assert len({one.head for one in outcomes}) == 2
    heights = [one.height for one in outcomes]
    assert heights == list(range(heights[0], heights[0] + 2))
    assert all(0 <= (one.metric or 0.0) <= 1 and one.loss > 0 for one in outcomes)
    assert session.workload.metric == "accuracy"
    await pause(home, session)
    session.close()
    await says(home, "paused: no script drives it")
    with pytest.raises(UnreachableError, match="the session is closed"):
        await train(session)
    # One window, and the script is gone again.
    once = await trio.to_thread.run_sync(trainer.train_window_once, "digits")
    assert once.accepted or once.why
    await end(fleet, trainer.continuous())


async def pause(home: Path, session: ContinuousSession) -> None:
    """By its owner, while a script drives it."""
    await trio.to_thread.run_sync(partial(ask, home, {"call": "pause"}, 10.0))
    await says(home, "paused: p2pd resume ends it")
    with pytest.raises(TimeoutError, match="no window was decided in that time"):
        await trio.to_thread.run_sync(partial(session.train_next_window, timeout_s=0.3))
    await trio.to_thread.run_sync(partial(ask, home, {"call": "resume"}, 10.0))
    resumed = [await train(session)]  # its window may be over already
    while not resumed[-1].accepted:
        assert resumed[-1].why
        resumed.append(await train(session))
    assert len(resumed) < 4


async def end(fleet: LocalFleet, session: ContinuousSession) -> None:
    """Of the node, under the script."""
    fleet.nodes[1].process.send_signal(signal.SIGKILL)
    await trio.to_thread.run_sync(fleet.nodes[1].process.wait)
    with pytest.raises(UnreachableError, match="has ended, or gave this script up"):
        await train(session)


def test_where_a_node_trains_itself_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no node is running in"):
        p2pd.attach(tmp_path).continuous()
