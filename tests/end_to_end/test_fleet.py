"""One run of a whole fleet, with deaths, restarts, a latecomer and a liar; what it must have come to."""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from p2pd.core.decision import Decision, Outcome, Standing
from p2pd.core.encoding import decode
from p2pd.core.ids import PeerId
from p2pd.core.messages import Choices
from p2pd.core.work import FULL, Verdict
from tests.end_to_end.fleet_bench import (
    Bench,
    Built,
    Founded,
    decisions,
    found,
    has_ipv6,
    lease_of,
    open_bench,
    until,
)
from tests.end_to_end.liar import install_liar
from tests.end_to_end.processes import (
    Process,
    alive,
    children_of,
    gone,
    mapped,
    processes,
    resident_bytes,
    stopped,
    worker_of,
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="these tests watch processes the Linux way"
)

LIMIT_S = 240.0
DEADLINE_S = 8.0
VALIDATORS = ("validator1", "validator2", "validator3")
EARLY = ("trainer1", "trainer2")
NODES = ("seed", *EARLY, *VALIDATORS, "liar", "viewer", "trainer3")
LEAVE_S = 10.0
LASTING = 10
"""Times that two nodes are asked, one after the other."""


@dataclass
class Played:
    """What was seen while it ran, and what the ledgers say."""

    founded: Founded
    addresses: list[str] = field(default_factory=list)
    """Of the peers that a validator knew."""
    peers: dict[str, str] = field(default_factory=dict)
    """Of the nodes that died, before they did."""
    peers_after: dict[str, str] = field(default_factory=dict)
    killed_at: int = 0
    """Height of the plan whose window was open when the trainer died."""
    restarted_at: int = 0
    """The last height decided before the dead came back."""
    left_at: int = 0
    """Height of the plan whose window was open when a trainer left."""
    left_with: int = -1
    """Its exit status."""
    shot: list[Process] = field(default_factory=list)
    """Subprocesses of a node that went on."""
    renewed: list[Process] = field(default_factory=list)
    """That node's subprocesses at the end."""
    orphans: list[Process] = field(default_factory=list)
    """The subprocesses of the nodes that died."""
    caught_up_at: int = 0
    """Height at which the latecomer was when it had caught up."""
    resident: dict[str, int] = field(default_factory=dict)
    maps: dict[str, str] = field(default_factory=dict)
    leaving: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Exit status, and seconds from SIGTERM to the end."""
    left_over: list[Process] = field(default_factory=list)
    chains: dict[str, list[Decision]] = field(default_factory=dict)

    @property
    def chain(self) -> list[Decision]:
        return self.chains["validator1"]

    def peer(self, name: str) -> PeerId:
        return PeerId(bytes.fromhex(self.founded.peer(name)))

    def standing(self, name: str) -> Standing:
        rows = self.chain[-1].state.standing
        return next(row for row in rows if row.peer == self.peer(name))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, built: Built) -> Played:
    directory = tmp_path_factory.mktemp("fleet")
    founded = found(
        directory,
        built,
        validators=VALIDATORS,
        quorum=2,
        deadline_s=DEADLINE_S,
    )
    played = Played(founded)

    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            async with open_bench(founded) as bench:
                bench.listen = "[::1]:0" if has_ipv6() else bench.listen
                await _start(bench, played)
                await _kill(bench, played)
                await _restart(bench, played)
                await _leave(bench, played)
                await _shoot(bench, played)
                await _finish(bench, played)

    trio.run(main)
    played.chains = {name: decisions(founded, name) for name in NODES}
    return played


async def _start(bench: Bench, played: Played) -> None:
    await bench.start_seed()
    for name in EARLY:
        bench.start(name, "trainer")
    for name in VALIDATORS:
        bench.start(name, "validator")
    installed = install_liar(bench.founded.directory / "installed")
    bench.start("liar", "liar", environment=installed)
    bench.start("viewer", "viewer")
    await bench.promotes("validator1", 2)
    played.addresses = [row["address"] for row in (await bench.answers("validator1"))["peers"]]


async def _midway(bench: Bench, slow: str, *others: str) -> int:
    """The height of a window in which the others have delivered, and one whose work stands still has not.

    It may have been done just before it was stopped, and be on its way: what is seen must last a while.
    """

    async def midway() -> int:
        heights = {await seen() for _ in range(LASTING)}
        return heights.pop() if len(heights) == 1 else 0

    async def seen() -> int:
        assert (await bench.answers(slow))["node"]["peer"]
        revision = await bench.revision("validator1")
        states = {
            name: (lease_of(revision, bench.founded.peer(name)) or {}).get("state")
            for name in (slow, *others)
        }
        wanted = {slow: "training", **dict.fromkeys(others, "announced")}
        return revision["height"] + 1 if states == wanted else 0

    return await until(f"a window that lacks the update of {slow} alone", midway)


async def _kill(bench: Bench, played: Played) -> None:
    """A trainer in mid-window, and in the same window a validator."""
    victims = ("trainer2", "validator3")
    played.peers = {name: (await bench.answers(name))["node"]["peer"] for name in victims}
    worker = worker_of(bench.nodes["trainer2"].process.pid)
    assert worker is not None
    with stopped(worker):
        played.killed_at = await _midway(bench, "trainer2", "trainer1")
        for name in victims:
            played.orphans += children_of(bench.nodes[name].process.pid)
            bench.kill(name)
        await gone("the subprocesses of the dead", played.orphans)
        groups = {process.pid for process in played.orphans}
        played.left_over += [p for p in processes().values() if p.group in groups]
    heads = (await bench.revision("validator1"))["heads"]
    await bench.promotes("validator1", heads + 3)
    played.restarted_at = (await bench.revision("validator1"))["height"]


async def _restart(bench: Bench, played: Played) -> None:
    bench.start("validator3", "validator")
    bench.start("trainer2", "trainer")
    bench.start("trainer3", "trainer")

    async def caught_up() -> int:
        height = (await bench.revision("validator1"))["height"]
        mine = (await bench.revision("trainer3"))["height"]
        return mine if mine >= height else 0

    played.caught_up_at = await until("the latecomer has caught up", caught_up)
    for name in played.peers:
        played.peers_after[name] = (await bench.answers(name))["node"]["peer"]

    async def all_deliver() -> bool:
        revision = await bench.revision("validator1")
        delivered = {row["peer"]: row["delivered"] for row in revision["standing"]}
        return bool(delivered.get(bench.founded.peer("trainer3"), 0) >= 2)

    await until("the latecomer has delivered twice", all_deliver)


async def _leave(bench: Bench, played: Played) -> None:
    """A trainer in mid-window, on SIGTERM; it comes back later."""
    worker = worker_of(bench.nodes["trainer3"].process.pid)
    assert worker is not None
    with stopped(worker):
        played.left_at = await _midway(bench, "trainer3", "trainer1", "trainer2")
        bench.nodes["trainer3"].process.terminate()
        played.left_with = await bench.ended("trainer3")
    await bench.reaches(("validator1",), played.left_at + 1)
    bench.start("trainer3", "trainer")


async def _shoot(bench: Bench, played: Played) -> None:
    """Both subprocesses of a validator, as the kernel does when memory runs out."""
    pid = bench.nodes["validator1"].process.pid
    played.shot = children_of(pid)
    for process in played.shot:
        os.kill(process.pid, signal.SIGKILL)
    dead = {process.pid for process in played.shot}

    async def renewed() -> bool:
        await trio.lowlevel.checkpoint()
        # Those that were shot are there until they have been reaped.
        played.renewed = [process for process in children_of(pid) if process.pid not in dead]
        return kinds(played.renewed) == kinds(played.shot)

    await until("the validator has new subprocesses", renewed)
    await bench.promotes("validator1", (await bench.revision("validator1"))["heads"] + 2)


async def _finish(bench: Bench, played: Played) -> None:
    await bench.reaches(NODES, (await bench.revision("validator1"))["height"])
    subprocesses: list[Process] = []
    for name in NODES:
        pid = bench.nodes[name].process.pid
        played.resident[name] = resident_bytes(pid)
        played.maps[name] = mapped(pid)
        subprocesses += children_of(pid)
    start_s = trio.current_time()
    for name in NODES:
        bench.nodes[name].process.terminate()

    async def leave(name: str) -> None:
        code = await bench.ended(name)
        played.leaving[name] = code, trio.current_time() - start_s

    async with trio.open_nursery() as nursery:
        for name in NODES:
            nursery.start_soon(leave, name)
    played.left_over += [process for process in subprocesses if alive(process)]


def test_i02_all_nodes_have_one_lineage(played: Played) -> None:
    longest = max(played.chains.values(), key=len)
    for name, chain in played.chains.items():
        assert [d.id for d in chain] == [d.id for d in longest[: len(chain)]], name
        assert len(chain) > played.killed_at + 2, name


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 on this machine")
def test_a_fleet_without_ipv4_comes_to_heads(played: Played) -> None:
    assert len(played.addresses) >= len(NODES) - 2
    assert {address.rpartition(":")[0] for address in played.addresses} == {"[::1]"}
    assert len(played.chain) > 3


def test_heads_go_on_while_a_validator_and_a_trainer_are_dead(played: Played) -> None:
    decided = played.chain[played.killed_at + 1 : played.restarted_at + 1]
    promoted = [d for d in decided if d.header.outcome is Outcome.PROMOTED]
    assert len(promoted) >= 2
    assert len({d.head for d in promoted}) == len(promoted)


def test_i07_the_microshards_of_a_dead_trainer_are_dealt_again(played: Played) -> None:
    plan = played.chain[played.killed_at - 1].state.plan
    lease = plan.lease_of(played.peer("trainer2"))
    assert lease is not None
    closed = played.chain[played.killed_at]
    assert not _delivered(closed, lease.peer)
    assert _delivered(closed, played.peer("trainer1"))
    again = [
        s
        for d in played.chain[played.killed_at :]
        for one in d.state.plan.roster
        for s in one.shards
    ]
    assert lease.shards
    assert set(lease.shards) <= set(again)


def test_a_trainer_that_leaves_gives_up_its_lease_and_its_presence(played: Played) -> None:
    assert played.left_with == 0
    peer = played.peer("trainer3")
    before, closed = played.chain[played.left_at - 1], played.chain[played.left_at]
    assert before.state.plan.lease_of(peer) is not None
    assert not _delivered(closed, peer)
    # It showed itself at this height, and would have another lease had it died without a word.
    present = {beacon.signer for beacon in decode(Choices, closed.choices).presence}
    others = {played.peer(name) for name in EARLY}
    assert others <= present
    assert peer not in present
    assert {lease.peer for lease in closed.state.plan.roster} == others


def test_i07_no_microshard_is_counted_twice_in_an_epoch(played: Played) -> None:
    counted: dict[tuple[int, int], int] = {}
    for before, decision in zip(played.chain, played.chain[1:], strict=False):
        if decision.header.outcome is not Outcome.PROMOTED:
            continue
        epoch = before.state.progress.epoch
        for candidate in decode(Choices, decision.choices).cohort:
            lease = before.state.plan.lease_of(candidate.update.signer)
            if candidate.verdict is Verdict.ACCEPTED and lease is not None:
                for shard in lease.shards:
                    counted[epoch, shard] = counted.get((epoch, shard), 0) + 1
    assert counted
    assert set(counted.values()) == {1}


def test_no_subprocess_outlives_a_killed_node(played: Played) -> None:
    commands = " ".join(process.command for process in played.orphans)
    assert "p2pd.workload.serve" in commands
    assert "p2pd.tensors.serve" in commands


def kinds(found: list[Process]) -> list[str]:
    """The modules that they run, sorted."""
    return sorted(w for p in found for w in p.command.split() if w.startswith("p2pd."))


def test_a_node_whose_subprocesses_are_killed_starts_new_ones(played: Played) -> None:
    assert kinds(played.shot) == ["p2pd.tensors.serve", "p2pd.workload.serve"]
    assert kinds(played.renewed) == kinds(played.shot)


def test_restarted_nodes_keep_their_identity_and_work_on(played: Played) -> None:
    assert played.peers_after == played.peers
    trained = [d.height for d in played.chain if _delivered(d, played.peer("trainer2"))]
    assert max(trained) > played.killed_at + 2


def _delivered(decision: Decision, peer: bytes) -> bool:
    if not decision.choices:
        return False
    cohort = decode(Choices, decision.choices).cohort
    return any(c.update.signer == peer and c.verdict is Verdict.ACCEPTED for c in cohort)


def test_a_latecomer_is_in_the_plan_after_next(played: Played) -> None:
    rosters = {d.state.plan.height: d.state.plan.roster for d in played.chain}
    mine = played.peer("trainer3")
    first = min(h for h, roster in rosters.items() if any(lease.peer == mine for lease in roster))
    # Its presence was said at height caught_up_at + 1: the next plan may have been proposed.
    assert first <= played.caught_up_at + 3


def test_a_wrong_merge_costs_nothing_but_the_standing_of_its_author(played: Played) -> None:
    liar = played.standing("liar")
    assert liar.wrong_merges >= 1
    assert liar.score < FULL
    for name in ("trainer1", "trainer2", "trainer3"):
        row = played.standing(name)
        assert (row.rejected, row.wrong_merges, row.score) == (0, 0, FULL), name
    promoted = [d for d in played.chain[1:] if d.header.outcome is Outcome.PROMOTED]
    assert all(any(d.head) for d in promoted)  # the liar's head is all zeros
    said = [
        reduction.content.merged.head
        for d in played.chain[1:]
        for reduction in decode(Choices, d.choices).reductions
    ]
    assert said
    assert not any(any(head) for head in said)


def test_a_viewer_follows_to_the_end(played: Played) -> None:
    assert len(played.chains["viewer"]) >= len(played.chain) - 1


def test_a_node_leaves_within_ten_seconds_of_sigterm_and_leaves_no_process(played: Played) -> None:
    assert {name: code for name, (code, _) in played.leaving.items()} == dict.fromkeys(NODES, 0)
    assert max(seconds for _, seconds in played.leaving.values()) < LEAVE_S
    assert played.left_over == []


def test_i12_a_daemon_maps_no_torch_and_no_numpy(played: Played) -> None:
    for name, maps in played.maps.items():
        assert "libpython" in maps or "/python" in maps, name
        assert "libtorch" not in maps, name
        assert "/numpy/" not in maps, name


def test_a_daemon_takes_less_than_80_mb_besides_its_subprocesses(played: Played) -> None:
    assert {name: size for name, size in played.resident.items() if size >= 80 * 10**6} == {}
