import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest
import trio

from p2pd.core.encoding import decode, encode
from p2pd.core.hello import PROTOCOL_VERSION, Hello, PeerRecord
from p2pd.core.ids import NetworkId, PeerId
from p2pd.core.talk import GetPeers, Objects, load_talk
from p2pd.errors import RemoteError, UnreachableError
from p2pd.io.keys import Ed25519Signer
from p2pd.node.discovery import RECORDS_MAX, Discovery, DiscoverySettings, Seed
from p2pd.node.peer_table import FRESH_MS, KIND, record_scope
from p2pd.ports import Link, Table, Write
from p2pd.sim.faults import Crash, FaultSet, apply_faults, draw_faults
from p2pd.sim.links import Partition
from p2pd.sim.network import MemoryNetwork, MemoryTransport
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryLedger
from p2pd.wire.envelope import dump, load, seal

NETWORK = NetworkId(b"n" * 32)
HELLO = Hello(PROTOCOL_VERSION, NETWORK, ("trainer",), "", "test")
START_MS = 1_800_000_000_000


def signer_of(name: str) -> Ed25519Signer:
    return Ed25519Signer(name.encode().ljust(32, b"\0"))


def envelope_of(name: str, address: str, issued_at_ms: int) -> bytes:
    record = PeerRecord(address, ("trainer",), issued_at_ms)
    return dump(seal(signer_of(name), KIND, record_scope(NETWORK), record))


@dataclass
class Node:
    name: str
    transport: MemoryTransport
    ledger: MemoryLedger
    discovery: Discovery
    forged: Sequence[bytes] | None = None
    """What it answers in place of the records that it knows."""
    dialled: list[tuple[float, PeerId]] = field(default_factory=list)
    farewells: list[str] = field(default_factory=list)
    life: trio.CancelScope = field(default_factory=trio.CancelScope)

    @property
    def peer(self) -> PeerId:
        return self.transport.peer

    def connected(self, link: Link) -> None:
        if link.dialled:
            self.dialled.append((trio.current_time(), link.peer))
        self.discovery.connected(link)

    def disconnected(self, link: Link, why: str) -> None:
        self.farewells.append(why)
        self.discovery.disconnected(link)

    def received(self, peer: PeerId, message: bytes) -> None: ...

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        asked = load_talk(request)
        if not isinstance(asked, GetPeers):
            raise RemoteError("only peers are known here")
        if self.forged is not None:
            return encode(Objects(tuple(self.forged)))
        return self.discovery.serve_peers(peer, asked)

    def linked(self) -> set[PeerId]:
        return {link.peer for link in self.transport.links()}


@dataclass
class Bench:
    network: MemoryNetwork
    nursery: trio.Nursery
    seeds: tuple[Seed, ...] = (Seed("10.0.0.1:7000"),)
    """The first node that starts is the seed."""
    mesh: int = 32

    async def start(
        self,
        name: str,
        *,
        ledger: MemoryLedger | None = None,
        address: str | None = None,
        skew_ms: int = 0,
        key: str = "",
    ) -> Node:
        ledger = MemoryLedger() if ledger is None else ledger
        signer = signer_of(key or name)
        transport = self.network.join(name, signer.peer, HELLO, address=address)
        settings = DiscoverySettings(
            network=NETWORK, roles=("trainer",), seeds=self.seeds, mesh=self.mesh
        )
        discovery = Discovery(
            transport,
            ledger,
            signer,
            Random(name),
            lambda: START_MS + skew_ms + int(trio.current_time() * 1000),
            settings,
        )
        node = Node(name, transport, ledger, discovery)

        async def live(*, task_status: trio.TaskStatus[None]) -> None:
            with node.life:
                async with trio.open_nursery() as nursery:
                    await nursery.start(transport.run, node)
                    nursery.start_soon(discovery.run)
                    task_status.started()

        await self.nursery.start(live)
        return node

    async def fleet(self, count: int) -> list[Node]:
        return [await self.start(f"node{n}") for n in range(count)]


def run(scenario: Callable[[Bench], Awaitable[None]], *, seed: int = 0) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await scenario(Bench(MemoryNetwork(seed), nursery))
            nursery.cancel_scope.cancel()

    assert run_seeded(seed, main, 50_000.0)


def assert_full_mesh(nodes: Sequence[Node]) -> None:
    peers = {node.peer for node in nodes}
    assert [node.linked() for node in nodes] == [peers - {node.peer} for node in nodes]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_meet_through_one_seed_and_stay_together_without_it(seed: int) -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(5)
        await trio.sleep(15.0)
        assert_full_mesh(nodes)
        nodes[0].life.cancel()
        await trio.sleep(200.0)
        assert_full_mesh(nodes[1:])
        assert all(len(node.farewells) == 1 for node in nodes[1:])
        # A late one still gets in by a neighbour's address, though the seed is gone.
        bench.seeds = (Seed(nodes[2].transport.address, nodes[2].peer),)
        late = await bench.start("late")
        await trio.sleep(15.0)
        assert_full_mesh([*nodes[1:], late])

    run(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_joins_within_15_s_of_its_seed(seed: int) -> None:
    async def scenario(bench: Bench) -> None:
        bench.seeds = (Seed("10.0.0.9:7000"),)
        nodes = await bench.fleet(3)
        await trio.sleep(100.0 + seed)
        assert all(node.linked() == set() for node in nodes)
        await bench.start("seed", address="10.0.0.9:7000")
        await trio.sleep(15.0)
        assert all(signer_of("seed").peer in node.linked() for node in nodes)

    run(scenario, seed=seed)


def test_a_restarted_node_finds_its_neighbours_with_all_seeds_down_even_after_days() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(3)
        await trio.sleep(15.0)
        assert_full_mesh(nodes)
        nodes[2].life.cancel()
        nodes[0].life.cancel()
        day_ms = 24 * 60 * 60 * 1000
        again = await bench.start("node2", ledger=nodes[2].ledger, skew_ms=2 * day_ms)
        assert again.ledger.get(Table.PEERS, nodes[1].peer) is not None
        await trio.sleep(20.0)
        assert again.linked() == {nodes[1].peer}

    run(scenario)


def test_a_seed_is_spoken_of_once_for_each_change(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        bench.seeds = (Seed("10.0.0.9:7000"),)
        await bench.start("alice")
        await trio.sleep(300.0)
        seed = await bench.start("seed", address="10.0.0.9:7000")
        await trio.sleep(60.0)
        seed.life.cancel()
        await trio.sleep(300.0)
        await bench.start("usurper", address="10.0.0.9:7000")
        await trio.sleep(60.0)

    with caplog.at_level(logging.INFO, logger="p2pd.discovery"):
        run(scenario)
    said = [record.message for record in caplog.records]
    assert [line.split(":7000 ")[1].split(":")[0] for line in said] == [
        "is out of reach",
        "is linked",
        "is out of reach",
        "is linked",
    ]


def test_a_seed_with_another_key_is_refused_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.start("imposter")
        bench.seeds = (Seed("10.0.0.1:7000", signer_of("seed").peer),)
        alice = await bench.start("alice")
        await trio.sleep(120.0)
        assert alice.linked() == set()

    run(scenario)
    assert ["refuses" in record.message for record in caplog.records] == [True]


def test_a_healed_partition_grows_together() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(6)
        await trio.sleep(15.0)
        names = [node.name for node in nodes]
        split = Partition(frozenset(names[:3]), frozenset(names[3:]))
        bench.network.cut(split)
        await trio.sleep(300.0)
        assert_full_mesh(nodes[:3])
        assert_full_mesh(nodes[3:])
        bench.network.heal(split)
        await trio.sleep(60.0)
        assert_full_mesh(nodes)

    run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_after_the_last_fault_everybody_is_linked_again(seed: int) -> None:
    async def scenario(bench: Bench) -> None:
        nodes = {node.name: node for node in await bench.fleet(5)}

        def crash(fault: Crash) -> None:
            node = nodes[fault.name]
            if fault.silent:
                node.transport.power_off()
            node.life.cancel()

        def restart(name: str) -> None:
            bench.nursery.start_soon(begin, name)

        async def begin(name: str) -> None:
            nodes[name] = await bench.start(name, ledger=nodes[name].ledger)

        faults = draw_faults(seed, list(nodes), FaultSet.ALL, until_s=200.0)
        assert any(isinstance(fault, Crash) for fault in faults)
        await apply_faults(faults, bench.network, crash, restart)
        await trio.sleep(90.0)
        assert_full_mesh(list(nodes.values()))

    run(scenario, seed=seed)


def test_a_big_network_is_a_connected_mesh_that_stays_as_it_is() -> None:
    async def scenario(bench: Bench) -> None:
        bench.mesh = 4
        nodes = await bench.fleet(30)
        await trio.sleep(300.0)
        links = {node.peer: node.linked() for node in nodes}
        assert max(len(peers) for peer, peers in links.items() if peer != nodes[0].peer) < 20
        for node in nodes[1:]:
            assert len(links[node.peer]) >= 4
        reached, edge = {nodes[5].peer}, [nodes[5].peer]
        while edge:
            news = links[edge.pop()] - reached - {nodes[0].peer}  # without the seed
            reached |= news
            edge += sorted(news)
        assert len(reached) == 29
        dialled = [len(node.dialled) for node in nodes]
        await trio.sleep(300.0)
        assert [len(node.dialled) for node in nodes] == dialled

    run(scenario)


def test_the_dead_give_their_places_in_the_mesh_to_the_living() -> None:
    async def scenario(bench: Bench) -> None:
        bench.mesh = 3
        nodes = await bench.fleet(12)
        await trio.sleep(120.0)
        for node in nodes[6:]:
            node.life.cancel()
        await trio.sleep(300.0)
        living = {node.peer for node in nodes[:6]}
        for node in nodes[1:6]:
            assert node.linked() <= living
            assert len(node.linked()) >= 3

    run(scenario)


def test_a_dead_peer_is_dialled_ever_more_rarely() -> None:
    attempts: list[float] = []

    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(3)
        await trio.sleep(15.0)
        connect = nodes[1].transport.connect

        async def counted(address: str, peer: PeerId | None) -> Link:
            if peer == nodes[2].peer:
                attempts.append(trio.current_time())
            return await connect(address, peer)

        nodes[1].transport.connect = counted  # type: ignore[method-assign]
        nodes[2].life.cancel()
        await trio.sleep(600.0)

    run(scenario)
    assert 600 / (6 + 30) <= len(attempts) <= 60


@pytest.mark.parametrize("kind", ["signature", "malformed", "kind", "address", "many"])
def test_i03_whoever_passes_on_false_records_is_left(kind: str) -> None:
    true = envelope_of("carol", "10.0.0.3:7000", START_MS)
    signed = load(true, NETWORK)
    forgeries = {
        "signature": [dump(replace(signed, signature=bytes(64)))],
        "malformed": [true + b"x"],
        "kind": [
            dump(seal(signer_of("carol"), KIND, replace(signed.scope, height=1), signed.content))
        ],
        "address": [envelope_of("carol", "10.0.0.3:99999", START_MS)],
        "many": [true] * (RECORDS_MAX + 1),
    }

    async def scenario(bench: Bench) -> None:
        liar = await bench.start("liar")
        liar.forged = forgeries[kind]
        alice = await bench.start("alice")
        await trio.sleep(60.0)
        assert "its peer records are wrong" in alice.farewells[0]
        assert alice.discovery.known() == ()

    run(scenario)


def test_records_too_old_from_the_future_replayed_or_of_loopback_change_nothing() -> None:
    hour_ms = 60 * 60 * 1000
    useless = [
        envelope_of("old", "10.0.0.11:7000", START_MS - 2 * hour_ms),
        envelope_of("future", "10.0.0.12:7000", START_MS + 10 * hour_ms),
        envelope_of("loopback", "127.0.0.1:7000", START_MS),
        envelope_of("any", "0.0.0.0:7000", START_MS),
    ]
    newer = envelope_of("carol", "10.0.0.14:7000", START_MS - 1)
    older = envelope_of("carol", "10.0.0.13:7000", START_MS - 2)

    async def scenario(bench: Bench) -> None:
        relay = await bench.start("relay")
        relay.forged = [*useless, newer, older]
        alice = await bench.start("alice")
        await trio.sleep(30.0)
        assert alice.linked() == {relay.peer}
        assert [(view.peer, view.record.address) for view in alice.discovery.known()] == [
            (signer_of("carol").peer, "10.0.0.14:7000")
        ]
        answer = alice.discovery.serve_peers(relay.peer, GetPeers(100))
        own, *others = decode(Objects, answer).envelopes
        assert load(own, NETWORK).signer == alice.peer
        assert others == [newer]
        await trio.sleep(FRESH_MS / 1000 + 700.0)
        own, *others = decode(
            Objects, alice.discovery.serve_peers(relay.peer, GetPeers(100))
        ).envelopes
        assert load(own, NETWORK).content.issued_at_ms > START_MS + FRESH_MS
        assert others == []

    run(scenario)


def test_loopback_addresses_are_told_to_this_machine_only() -> None:
    async def scenario(bench: Bench) -> None:
        bench.seeds = (Seed("127.0.0.1:1"),)
        here = await bench.start("here", address="127.0.0.1:1")
        near = await bench.start("near", address="127.0.0.1:2")
        far = await bench.start("far", address="10.0.0.3:7000")
        await trio.sleep(20.0)
        assert near.peer in here.linked()

        def told(to: Node) -> set[PeerId]:
            data = here.discovery.serve_peers(to.peer, GetPeers(100))
            return {load(item, NETWORK).signer for item in decode(Objects, data).envelopes}

        assert far.peer in here.linked()  # far dialled what it was configured with
        assert told(near) == {here.peer, near.peer, far.peer}
        assert told(far) == {far.peer}
        assert told(await bench.start("stranger", address="")) == {far.peer}

    run(scenario)


def test_i09_no_more_is_told_than_was_asked_for() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(10)
        await trio.sleep(20.0)
        for most, count in ((3, 3), (0, 1), (10_000, 10)):
            data = nodes[0].discovery.serve_peers(nodes[1].peer, GetPeers(most))
            assert len(decode(Objects, data).envelopes) == count

    run(scenario)


def test_a_node_without_an_address_joins_but_is_not_passed_on() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(3)
        hidden = await bench.start("hidden", address="")
        await trio.sleep(30.0)
        assert hidden.linked() == {node.peer for node in nodes}
        for node in nodes:
            assert hidden.peer not in {view.peer for view in node.discovery.known()}

    run(scenario)


def test_a_changed_address_is_signed_and_told_anew() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(3)
        await trio.sleep(15.0)
        nodes[2].transport.hello = replace(HELLO, address="10.0.0.77:7000")
        await trio.sleep(120.0)
        views = {view.peer: view for view in nodes[1].discovery.known()}
        assert views[nodes[2].peer].record.address == "10.0.0.77:7000"

    run(scenario)


def test_a_peer_is_reached_by_its_record() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(3)
        await trio.sleep(15.0)
        reach = nodes[1].discovery.reach
        assert (await reach(nodes[2].peer)).peer == nodes[2].peer
        with pytest.raises(UnreachableError, match="no address"):
            await reach(signer_of("nobody").peer)

    run(scenario)


def test_i11_a_shunned_peer_is_not_dialled() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(3)
        await trio.sleep(15.0)
        for one, other in ((1, 2), (2, 1)):
            nodes[one].discovery.shun([nodes[other].peer])
        nodes[1].transport.disconnect(nodes[2].peer, "revoked")
        await trio.sleep(120.0)
        assert nodes[2].peer not in nodes[1].linked()
        nodes[1].discovery.shun([])
        await trio.sleep(60.0)
        assert nodes[2].peer in nodes[1].linked()

    run(scenario)


def test_a_copied_identity_is_found_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(4)
        await trio.sleep(30.0)
        # Who is linked to the one does not let the other in: the copy needs a place apart.
        for one, other in ((2, 3), (3, 2)):
            nodes[one].discovery.shun([nodes[other].peer])
        nodes[2].transport.disconnect(nodes[3].peer, "kept apart")
        bench.seeds = (Seed(nodes[3].transport.address),)
        copy = await bench.start("copy", key="node2")
        await trio.sleep(120.0)
        assert copy.linked() == {nodes[3].peer}
        assert nodes[2].discovery.twin == copy.transport.address == "10.0.0.5:7000"

    run(scenario)
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert [line for line in errors if "live at 10.0.0.5:7000" in line] == errors[:1]


def test_a_damaged_stored_record_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    ledger = MemoryLedger()

    async def scenario(bench: Bench) -> None:
        good = envelope_of("bob", "10.0.0.50:7000", START_MS)
        await ledger.commit(
            [Write(Table.PEERS, b"a", b"rubbish"), Write(Table.PEERS, signer_of("bob").peer, good)]
        )
        alice = await bench.start("alice", ledger=ledger)
        await trio.sleep(1.0)
        assert [view.peer for view in alice.discovery.known()] == [signer_of("bob").peer]

    run(scenario)
    assert ["not used" in record.message for record in caplog.records] == [True]
