from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import trio

from p2pd.core.hello import Hello
from p2pd.core.ids import NetworkId, PeerId
from p2pd.errors import LocalError, RemoteError, UnreachableError
from p2pd.sim.clock import KEPT, Skew
from p2pd.sim.ends import IDLE_S, MESSAGE_BYTES, QUEUE_BYTES
from p2pd.sim.links import LinkFaults, Partition
from p2pd.sim.network import DIAL_S, MemoryNetwork
from p2pd.sim.run import run_seeded
from tests.ports import transport_contract
from tests.sim.network_bench import HELLO, Bench, Node, Recorder, peer, run


def test_both_sides_of_a_dial_know_the_link() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        (here,), (there,) = alice.transport.links(), bob.transport.links()
        assert (here.peer, here.remote, here.dialled) == (peer("bob"), "10.0.0.2:7000", True)
        assert (there.peer, there.remote, there.dialled) == (peer("alice"), "10.0.0.1:7000", False)
        assert here.hello == replace(HELLO, address="10.0.0.2:7000")
        assert (alice.handler.of("connected"), bob.handler.of("connected")) == ([True], [False])
        assert await alice.transport.connect("10.0.0.2:7000", None) == here
        assert await bob.transport.connect("10.0.0.1:7000", peer("alice")) == there
        assert len(bob.handler.of("connected")) == 1

    run(scenario)


def test_two_that_dial_each_other_at_once_get_one_link() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.start("alice"), await bench.start("bob")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(alice.transport.connect, "10.0.0.2:7000", peer("bob"))
            nursery.start_soon(bob.transport.connect, "10.0.0.1:7000", peer("alice"))
        assert len(alice.transport.links()) == len(bob.transport.links()) == 1
        assert alice.transport.links()[0].dialled != bob.transport.links()[0].dialled

    run(scenario)


@pytest.mark.parametrize(
    ("hello", "wanted", "why"),
    [
        (HELLO, peer("carol"), "not 6361726f6c"),
        (replace(HELLO, version=7), peer("bob"), "version 7, this node 1"),
        (replace(HELLO, network=NetworkId(b"x" * 32)), None, "of network 7878787878"),
    ],
)
def test_a_dial_to_the_wrong_node_is_refused(hello: Hello, wanted: PeerId | None, why: str) -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.start("alice"), await bench.start("bob", hello)
        with pytest.raises(RemoteError, match=why):
            await alice.transport.connect(bob.transport.address, wanted)
        assert alice.transport.links() == bob.transport.links() == ()

    run(scenario)


def test_a_dial_that_nobody_answers_ends_as_unreachable() -> None:
    async def scenario(bench: Bench) -> None:
        alice = await bench.start("alice")
        hidden = await bench.start("hidden", address="")
        assert hidden.transport.address == ""
        for address in ("10.9.9.9:1", ""):
            start_s = trio.current_time()
            with pytest.raises(UnreachableError, match="does not answer"):
                await alice.transport.connect(address, None)
            assert trio.current_time() - start_s == pytest.approx(DIAL_S)
        with pytest.raises(RemoteError, match="this node itself"):
            await alice.transport.connect(alice.transport.address, None)
        link = await hidden.transport.connect(alice.transport.address, None)
        assert link.peer == peer("alice")

    run(scenario)


def test_messages_arrive_in_order_on_a_link_without_faults() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        sent = [bytes([n]) for n in range(100)]
        assert all(alice.transport.send(peer("bob"), message) for message in sent)
        await trio.sleep(1.0)
        assert bob.handler.of("received") == sent
        assert not alice.transport.send(peer("carol"), b"no link")

    run(scenario)


def test_messages_are_lost_doubled_and_overtaken_as_the_faults_say() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        for faults, check in (
            (LinkFaults(loss=0.5), lambda got: 20 < len(got) < 80 and got == sorted(set(got))),
            (LinkFaults(duplication=0.5), lambda got: len(got) > 120 and len(set(got)) == 100),
            (LinkFaults(reordering=0.5), lambda got: len(got) == 100 and got != sorted(got)),
        ):
            bench.network.set_faults(faults)
            bob.handler.log.clear()
            for number in range(100):
                alice.transport.send(peer("bob"), bytes([number]))
            await trio.sleep(1.0)
            assert check(bob.handler.of("received"))

    run(scenario)


def test_i09_a_full_queue_drops_and_says_so() -> None:
    async def scenario(bench: Bench) -> None:
        alice, _ = await bench.pair()
        fit = QUEUE_BYTES // 2048
        taken = [alice.transport.send(peer("bob"), bytes(2048)) for _ in range(fit + 10)]
        assert taken == [True] * fit + [False] * 10
        await trio.sleep(1.0)
        assert alice.transport.send(peer("bob"), b"x")

    run(scenario)


def test_a_message_that_no_link_carries_is_a_bug() -> None:
    async def scenario(bench: Bench) -> None:
        alice, _ = await bench.pair()
        assert alice.transport.send(peer("bob"), bytes(MESSAGE_BYTES))
        with pytest.raises(LocalError, match="exceeds"):
            alice.transport.send(peer("bob"), bytes(MESSAGE_BYTES + 1))
        with pytest.raises(LocalError, match="exceeds"):
            await alice.transport.request(peer("bob"), bytes(MESSAGE_BYTES + 1), limit_bytes=9)

    run(scenario)


def test_a_request_is_answered_refused_or_too_large() -> None:
    async def scenario(bench: Bench) -> None:
        alice, _ = await bench.pair()
        ask = alice.transport.request
        assert await ask(peer("bob"), b"hello", limit_bytes=5) == b"HELLO"
        with pytest.raises(RemoteError, match="not for you"):
            await ask(peer("bob"), b"refuse", limit_bytes=100)
        with pytest.raises(RemoteError, match="limit of 4 bytes"):
            await ask(peer("bob"), b"hello", limit_bytes=4)
        with pytest.raises(UnreachableError, match="no link"):
            await ask(peer("carol"), b"hello", limit_bytes=4)

    run(scenario)


def test_requests_get_through_loss_and_fail_as_the_faults_say() -> None:
    async def scenario(bench: Bench) -> None:
        alice, _ = await bench.pair()
        bench.network.set_faults(LinkFaults(loss=0.9))
        assert await alice.transport.request(peer("bob"), b"hello", limit_bytes=5) == b"HELLO"
        bench.network.set_link("alice", "bob", LinkFaults(failure=1.0))
        with pytest.raises(UnreachableError, match="broke off"):
            await alice.transport.request(peer("bob"), b"hello", limit_bytes=5)
        bench.network.set_link("alice", "bob", None)
        assert await alice.transport.request(peer("bob"), b"hello", limit_bytes=5) == b"HELLO"

    run(scenario)


def test_a_request_ends_with_its_link_on_both_sides() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()

        async def break_soon() -> None:
            await trio.sleep(1.0)
            bob.transport.disconnect(peer("alice"), "enough")
            assert bob.handler.of("abandoned") == []
            await trio.sleep(LinkFaults().delay_min_s / 2)  # before alice can have heard of it
            assert bob.handler.of("abandoned") == [b"never"]

        bench.nursery.start_soon(break_soon)
        with pytest.raises(UnreachableError, match="enough"):
            await alice.transport.request(peer("bob"), b"never", limit_bytes=5)
        assert alice.handler.of("disconnected") == bob.handler.of("disconnected") == ["enough"]
        assert alice.transport.links() == bob.transport.links() == ()

    run(scenario)


@pytest.mark.parametrize("silent", [False, True])
def test_others_learn_of_a_crash_and_the_restarted_node_comes_back(silent: bool) -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        if silent:
            bob.transport.power_off()
        start_s = trio.current_time()
        bob.life.cancel()
        with pytest.raises(UnreachableError):
            await alice.transport.request(peer("bob"), b"hello", limit_bytes=5)
        took_s = trio.current_time() - start_s
        assert took_s == pytest.approx(IDLE_S) if silent else took_s < 1.0
        assert bob.transport.links() == ()
        assert not bob.transport.send(peer("alice"), b"from the grave")

        again = await bench.start("bob")
        assert again.transport.address == bob.transport.address
        await alice.transport.connect(again.transport.address, peer("bob"))
        assert await alice.transport.request(peer("bob"), b"hello", limit_bytes=5) == b"HELLO"
        assert bob.handler.of("received") == []

    run(scenario)


def test_a_restarted_node_replaces_the_link_of_its_former_life() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        alice.transport.power_off()
        alice.life.cancel()
        await trio.sleep(1.0)
        again = await bench.start("alice")
        await again.transport.connect(bob.transport.address, None)
        await trio.sleep(2 * IDLE_S)
        assert [what for _, what, _, _ in bob.handler.log] == [
            "connected",
            "disconnected",
            "connected",
        ]
        assert len(bob.transport.links()) == 1

    run(scenario)


def test_a_second_node_with_the_same_key_is_not_let_in_where_the_first_is_linked() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        copy = bench.network.join("copy", peer("alice"), HELLO)
        bench.nursery.start_soon(copy.run, Recorder())
        await trio.sleep(1.0)
        with pytest.raises(UnreachableError, match="linked already"):
            await copy.connect(bob.transport.address, None)
        assert await alice.transport.request(peer("bob"), b"hello", limit_bytes=5) == b"HELLO"
        with pytest.raises(RemoteError, match="itself"):
            await copy.connect(alice.transport.address, None)

    run(scenario)


def test_a_lasting_partition_breaks_links_and_heals() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        split = Partition(frozenset({"alice"}), frozenset({"bob"}))
        bench.network.cut(split)
        assert alice.transport.send(peer("bob"), b"swallowed")
        await trio.sleep(IDLE_S + 1.0)
        assert alice.transport.links() == bob.transport.links() == ()
        with pytest.raises(UnreachableError):
            await alice.transport.connect(bob.transport.address, None)
        bench.network.heal(split)
        await alice.transport.connect(bob.transport.address, None)
        assert bob.handler.of("received") == []

    run(scenario)


def test_a_short_partition_loses_messages_but_not_links_or_requests() -> None:
    async def scenario(bench: Bench) -> None:
        alice, bob = await bench.pair()
        split = Partition(frozenset({"alice"}), frozenset({"bob"}), one_way=True)
        bench.network.cut(split)
        alice.transport.send(peer("bob"), b"swallowed")
        bob.transport.send(peer("alice"), b"heard")

        async def heal_soon() -> None:
            await trio.sleep(IDLE_S / 2)
            bench.network.heal(split)

        bench.nursery.start_soon(heal_soon)
        assert await alice.transport.request(peer("bob"), b"hello", limit_bytes=5) == b"HELLO"
        await trio.sleep(IDLE_S)
        assert len(alice.transport.links()) == len(bob.transport.links()) == 1
        assert alice.handler.of("received") == [b"heard"]
        assert bob.handler.of("received") == []

    run(scenario)


def chatter(seed: int) -> tuple[str, list[tuple[float, str, PeerId, object]]]:
    """Six nodes that talk over bad links, one of which dies."""
    faults = LinkFaults(loss=0.1, duplication=0.1, reordering=0.2, failure=0.1)
    log: list[tuple[float, str, PeerId, object]] = []
    digest = ""

    async def talk(node: Node, others: list[Node]) -> None:
        for turn in range(20):
            for other in others:
                try:
                    await node.transport.connect(other.transport.address, other.transport.peer)
                    node.transport.send(other.transport.peer, bytes([turn]))
                    await node.transport.request(other.transport.peer, b"q", limit_bytes=9)
                except (UnreachableError, RemoteError) as error:
                    node.handler.note("failed", other.transport.peer, str(error))
            await trio.sleep(0.1)

    async def scenario(bench: Bench) -> None:
        nonlocal digest
        nodes = [await bench.start(f"node{n}") for n in range(6)]
        async with trio.open_nursery() as nursery:
            for node in nodes:
                nursery.start_soon(talk, node, nodes)
            await trio.sleep(3.0)
            nodes[0].life.cancel()
        for node in nodes:
            log.extend(node.handler.log)
        digest = bench.network.digest()

    run(scenario, seed=seed, faults=faults)
    return digest, log


def test_the_same_seed_gives_the_same_trace() -> None:
    assert chatter(1) == chatter(1)
    assert chatter(1)[0] != chatter(2)[0]


def test_shares_and_delays_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"from 0 to 1, got 1\.5"):
        LinkFaults(loss=1.5)
    with pytest.raises(ValueError, match="least one first"):
        LinkFaults(delay_min_s=1.0, delay_max_s=0.5)


@pytest.mark.parametrize("clause", transport_contract.CONTRACT)
def test_it_keeps_the_contract(
    clause: Callable[[transport_contract.Make], Awaitable[None]],
) -> None:
    async def main() -> None:
        network = MemoryNetwork(0)
        await clause(lambda name, hello: network.join(name, peer(name), hello))

    assert run_seeded(0, main, 60.0)


def test_a_node_hears_by_its_own_clock_whoever_causes_it() -> None:
    async def scenario(bench: Bench) -> None:
        alice = await bench.start("alice")
        KEPT.set(Skew(1.01, 5000.0))
        bob = await bench.start("bob")
        KEPT.set(Skew(0.99, 9000.0))  # this task is neither of them
        await alice.transport.connect(bob.transport.address, peer("bob"))
        assert alice.transport.send(peer("bob"), b"to bob")
        assert bob.transport.send(peer("alice"), b"to alice")
        await alice.transport.request(peer("bob"), b"hello", limit_bytes=5)
        bob.transport.disconnect(peer("alice"), "enough")
        await trio.sleep(1.0)
        for node, started_s in ((alice, 0.0), (bob, 5000.0)):
            assert node.handler.of("received") != []
            assert node.handler.of("disconnected") == ["enough"]
            assert all(started_s <= at_s < started_s + 10.0 for at_s, *_ in node.handler.log)

    run(scenario)
