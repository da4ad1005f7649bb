import logging
from dataclasses import replace
from math import inf

import pytest
import trio

from p2pd.core.encoding import decode
from p2pd.core.ids import PeerId
from p2pd.core.talk import GetPeers, Peers
from p2pd.node.discovery import RECORDS_MAX, Seed
from p2pd.node.peer_table import FRESH_MS, KIND
from p2pd.ports import Table, Write
from p2pd.sim.store import MemoryLedger
from p2pd.wire.envelope import dump, load, seal
from tests.node.discovery_bench import (
    HELLO,
    NETWORK,
    START_MS,
    Bench,
    Node,
    envelope_of,
    run,
    signer_of,
)


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
        own, *others = decode(Peers, answer).envelopes
        assert load(own, NETWORK).signer == alice.peer
        assert others == [newer]
        await trio.sleep(FRESH_MS / 1000 + 700.0)
        own, *others = decode(
            Peers, alice.discovery.serve_peers(relay.peer, GetPeers(100))
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
            return {load(item, NETWORK).signer for item in decode(Peers, data).envelopes}

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
            assert len(decode(Peers, data).envelopes) == count

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


def test_a_copied_identity_is_found_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(4)
        await trio.sleep(30.0)
        # Who is linked to the one does not let the other in: the copy needs a place apart.
        for one, other in ((2, 3), (3, 2)):
            nodes[one].discovery.shun(nodes[other].peer, inf)
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
