import logging
from collections.abc import Sequence

import pytest
import trio

from p2pd.core.ids import PeerId
from p2pd.errors import UnreachableError
from p2pd.node.discovery import Seed
from p2pd.ports import Link, Table
from p2pd.sim.drawing import Named, draw_faults
from p2pd.sim.faults import Crash, Cut, FaultSet, Weather, apply_faults
from p2pd.sim.links import Partition
from tests.node.discovery_bench import (
    Bench,
    Node,
    run,
    signer_of,
)
from tests.sim.worlds import World


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


def test_a_node_with_a_wrong_clock_notices_that_the_link_to_its_seed_is_gone() -> None:
    """To it everybody's record is too old to be kept, the seed's as well."""

    async def scenario(bench: Bench) -> None:
        bench.seeds = (Seed("10.0.0.9:7000"),)
        day_ms = 24 * 60 * 60 * 1000
        wrong = await bench.start("wrong", skew_ms=13 * day_ms)
        seed = await bench.start("seed", address="10.0.0.9:7000")
        await trio.sleep(60.0)
        assert wrong.linked() == {seed.peer}
        assert wrong.ledger.get(Table.PEERS, seed.peer) is None
        seed.life.cancel()
        await trio.sleep(60.0)
        assert wrong.linked() == set()
        await bench.start("seed", address="10.0.0.9:7000")
        await trio.sleep(60.0)
        assert wrong.linked() == {seed.peer}

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
    assert ["again within 6 s" in line for line in said] == [True, False, True, False]


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


class Town(World):
    """Nodes of a bench that crash and come back."""

    def __init__(self, bench: Bench, nodes: dict[str, Node]) -> None:
        World.__init__(self, bench.network)
        self.bench = bench
        self.nodes = nodes

    def kill(self, name: str, *, silent: bool) -> None:
        node = self.nodes[name]
        if silent:
            node.transport.power_off()
        node.life.cancel()

    def start(self, name: str) -> None:
        self.bench.nursery.start_soon(self._begin, name)

    async def _begin(self, name: str) -> None:
        self.nodes[name] = await self.bench.start(name, ledger=self.nodes[name].ledger)


@pytest.mark.parametrize("seed", range(5))
def test_after_the_last_fault_everybody_is_linked_again(seed: int) -> None:
    async def scenario(bench: Bench) -> None:
        nodes = {node.name: node for node in await bench.fleet(5)}
        drawn = draw_faults(seed, Named(tuple(nodes)), FaultSet.ALL, until_s=200.0)
        faults = [fault for fault in drawn if isinstance(fault, Weather | Cut | Crash)]
        assert any(isinstance(fault, Crash) for fault in faults)
        await apply_faults(faults, Town(bench, nodes))
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
            nodes[one].discovery.shun(nodes[other].peer, 200.0)
        nodes[1].transport.disconnect(nodes[2].peer, "revoked")
        await trio.sleep(120.0)
        assert nodes[2].peer not in nodes[1].linked()
        with pytest.raises(UnreachableError, match="shunned"):
            await nodes[1].discovery.reach(nodes[2].peer)
        await trio.sleep(120.0)
        assert nodes[2].peer in nodes[1].linked()

    run(scenario)
