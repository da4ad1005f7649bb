"""A fleet of real daemons on loopback whose trainers train nothing, run until so many heads are certified. Seconds."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.core.wording import counted
from p2pd.daemon.local import LocalFleet, Member, Status, revision_of
from p2pd.daemon.publish import (
    CanarySettings,
    MergeSettings,
    PublishRequest,
    RevisionSettings,
    ScheduleSettings,
    publish,
)
from p2pd.errors import P2pError
from p2pd.io.keys import create_key

POLL_S = 2.0
"""Nodes work for their status, too: one is asked until it is through, and then all."""
START_S = 120.0
LEASE_SHARDS = 8
QUORUM = 2
DEADLINE_S = 600.0
"""Of a window and of a check: nothing but the work itself shall end one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    megabytes: float
    """Of the model."""
    windows: int
    """Heads to certify in all."""
    warm_up: int
    """The first heads, which are not measured."""
    trainers: int = 4
    validators: int = 3

    def members(self) -> tuple[Member, ...]:
        """The first validator is the seed of all others: no node that only passes on."""
        roles = (("validator", self.validators), ("trainer", self.trainers))
        return tuple(Member(f"{role}{n}", role) for role, many in roles for n in range(1, many + 1))


@dataclass(frozen=True, slots=True)
class Measured:
    """The windows after the warm-up, as the nodes themselves saw them."""

    rows: dict[str, list[dict[str, Any]]]
    """Per node, its decisions with what each step took; see p2pd.status.snapshot.DecisionInfo."""
    wire_bytes: float
    """UDP payload that all nodes sent, per window; what it took to come together is in it."""


async def run_fleet(
    directory: Path, shape: Shape, limit_s: float, say: Callable[[str], None]
) -> Measured:
    """No process is left, whatever happens.

    Raises:
        P2pError: a node ended, or the heads were not certified within limit_s.
    """
    record = directory / "still.revision.cbor"
    fleet = LocalFleet(directory, "bench", shape.members(), record, START_S)
    authority = create_key(directory / "authority.key")
    genesis = fleet.found(authority, min(QUORUM, shape.validators))
    await publish(
        PublishRequest(
            examine=False,
            genesis=genesis,
            signers=(authority,),
            out=record,
            revision=RevisionSettings(
                study="bench",
                experiment="still",
                name="r1",
                workload="p2pd.workloads.still",
                config=json.dumps({"megabytes": shape.megabytes}),
            ),
            schedule=ScheduleSettings(
                lease_shards=LEASE_SHARDS,
                max_lease_shards=LEASE_SHARDS,
                deadline_s=DEADLINE_S,
                check_limit_s=DEADLINE_S,
                end_heads=shape.windows,
            ),
            merge=MergeSettings(),
            canary=CanarySettings(),
            log=say,
        )
    )
    try:
        await fleet.start()
        return await _watch(fleet, shape, limit_s, say)
    finally:
        await fleet.stop()


async def _watch(
    fleet: LocalFleet, shape: Shape, limit_s: float, say: Callable[[str], None]
) -> Measured:
    said = -1
    with trio.move_on_after(limit_s):
        while True:
            fleet.check_alive()
            judge = await fleet.ask(fleet.nodes[0])
            if judge is not None and (heads := revision_of(judge)["heads"]) > said:
                said = heads
                say(f"{shape.megabytes:g} MB: {said} of {counted(shape.windows, 'window')}")
            if said >= shape.windows and (statuses := await _all_through(fleet, shape)):
                return _measured(statuses, shape)
            await trio.sleep(POLL_S)
    raise P2pError(
        f"{said} of {counted(shape.windows, 'window')} of {shape.megabytes:g} MB certified in {limit_s:g} s"
    )


async def _all_through(fleet: LocalFleet, shape: Shape) -> dict[str, Status]:
    """What the nodes say; nothing before all of them hold the last head."""
    statuses = await fleet.ask_all()
    heads = [revision_of(status)["heads"] for status in statuses.values()]
    through = len(heads) == len(fleet.nodes) and min(heads) >= shape.windows
    return statuses if through else {}


def _measured(last: dict[str, Status], shape: Shape) -> Measured:
    rows = {name: _full_windows(status, shape) for name, status in last.items()}
    sent = sum(peer["sent_bytes"] for status in last.values() for peer in status["peers"])
    return Measured(rows, sent / shape.windows)


def _full_windows(status: Status, shape: Shape) -> list[dict[str, Any]]:
    """Those after the warm-up to which every trainer contributed."""
    revision = revision_of(status)
    start = revision["height"] - revision["heads"] + shape.warm_up
    return [
        row
        for row in revision["decisions"]
        if row["height"] > start
        and row["outcome"] == "promoted"
        and row["accepted"] == shape.trainers
    ]
