"""One attack on a running node, for a set time, in a process of its own. Seconds.

python -m tests.hostile.attack KIND ADDRESS NETWORK TERM EXPERIMENT REVISION HEIGHT SECONDS
"""

import itertools
import socket
import sys
from collections.abc import Awaitable, Callable
from random import Random

import trio
from aioquic.quic.connection import QuicConnection

from p2pd.core.encoding import encode
from p2pd.core.ids import DecisionId, NetworkId, ObjectId, RevisionId, TermId
from p2pd.core.messages import Beacon, Service
from p2pd.core.signed import Scope
from p2pd.core.talk import (
    GetPeers,
    GetRecords,
    Inventory,
    Objects,
    Peers,
    Tip,
    dump_talk,
    load_talk,
)
from p2pd.io.overlay import Identity
from p2pd.io.overlay._aioquic172 import configuration
from p2pd.io.overlay.identity import certificate
from p2pd.wire.envelope import dump, load, seal
from tests.hostile.rogue import LIMITS, Rogue, answered, calling, linked, signer_of

PAUSE_S = 0.001
"""Between two of a kind: a rogue that starves its own machine attacks nobody."""
TRIES_S = 0.05
HELD_MOST = 512


class Target:
    def __init__(self, words: list[str]) -> None:
        self.address = words[0]
        self.network = NetworkId(bytes.fromhex(words[1]))
        self.term = TermId(bytes.fromhex(words[2]))
        self.experiment = words[3]
        self.revision = RevisionId(bytes.fromhex(words[4]))
        self.height = int(words[5])
        """At which the attack began."""
        self.numbers = itertools.count()
        self.dice = Random(0)

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def name(self) -> str:
        """Of a peer that nobody has met."""
        return f"{self.dice.random()}"


async def garbage(target: Target) -> None:
    """Datagrams that look like nothing, or like the beginning of something."""
    with trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        while True:
            size = target.dice.choice((1, 9, 40, 1200, 1452))
            first = target.dice.choice((b"", b"\x40", b"\xc0\0\0\0\x01", b"\xc0\0\0\0\x05"))
            await sock.sendto((first + target.dice.randbytes(size))[:1452], target.place)
            await trio.sleep(PAUSE_S / 10)


async def half_open(target: Target) -> None:
    """First packets of handshakes that nobody means to go on with."""
    identity = Identity(signer_of("half").seed)
    settings = configuration(LIMITS, certificate(identity), identity.private_key, dialling=True)
    with trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        while True:
            quic = QuicConnection(configuration=settings)
            quic.connect(target.place, trio.current_time())
            for data, place in quic.datagrams_to_send(trio.current_time()):
                await sock.sendto(data, place)
            await trio.sleep(PAUSE_S)


async def handshakes(target: Target) -> None:
    """Whole handshakes, ever new keys, and no hello."""

    async def one() -> None:
        while True:
            with trio.move_on_after(5.0):
                async with calling(target.address, target.name()):
                    pass
            await trio.sleep(PAUSE_S)

    await _crowd(8, one)


async def _crowd(count: int, act: Callable[[], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(act)


async def _callers(
    target: Target,
    act: Callable[[Rogue], Awaitable[None]],
    limit_s: float = 20.0,
    pause_s: float = TRIES_S,
    **habits: object,
) -> None:
    """One peer after the other that nobody has met, each linked for so long at most."""
    while True:
        with trio.move_on_after(limit_s):
            async with linked(target.address, target.network, target.name(), **habits) as rogue:
                await act(rogue)
        await trio.sleep(pause_s)


async def identities(target: Target) -> None:
    """Ever new peers, each of which joins, tells that it will train, and goes."""

    async def act(rogue: Rogue) -> None:
        await rogue.say(presence(target, target.height))
        rogue.quic.close()
        await rogue.flush()

    await _callers(target, act, 5.0)


def presence(target: Target, height: int) -> bytes:
    scope = Scope(target.network, target.term, target.experiment, target.revision, height)
    signed = seal(signer_of(target.name()), "beacon", scope, Beacon(Service.TRAIN))
    return dump_talk(Objects((dump(signed),)))


async def objects(target: Target) -> None:
    """Signed objects by ever new keys, as fast as they are taken."""
    await _pour(target, lambda: presence(target, target.height + next(target.numbers) // 1000))


async def questions(target: Target) -> None:
    """Asks for all that the node holds, again and again."""
    message = dump_talk(Inventory(target.revision, 1, ()))
    await _pour(target, lambda: message)


async def ids(target: Target) -> None:
    """A million ids of experiments, decisions and objects."""

    await _pour(target, lambda: unknown_ids(target, 100)[0])


def unknown_ids(target: Target, most: int) -> tuple[bytes, int]:
    """A message with ids that nobody has heard of, and how many they are."""
    revision = RevisionId(target.dice.randbytes(32))
    if target.dice.random() < 0.5:
        return dump_talk(Tip(revision, next(target.numbers), DecisionId(bytes(32)))), 1
    known = tuple(ObjectId(target.dice.randbytes(32)) for _ in range(most))
    return dump_talk(Inventory(revision, next(target.numbers), known)), 1 + most


async def nesting(target: Target) -> None:
    """Deep, long and false CBOR."""
    bombs = (
        b"\x01" + b"\x81" * 500_000,
        b"\x01\x9b" + (2**40).to_bytes(8),
        b"\x01\x82" + b"\x80" * 900_000,
        bytes([99]) * 1000,
    )
    await _pour(target, lambda: target.dice.choice(bombs))


async def _pour(target: Target, make: Callable[[], bytes]) -> None:
    async def act(rogue: Rogue) -> None:
        while rogue.ended is None:
            await rogue.say(*(make() for _ in range(20)))
            await trio.sleep(PAUSE_S)

    await _callers(target, act)


async def requests(target: Target) -> None:
    """As many requests as are taken, half of them never finished, and no answer read."""
    ask = (
        dump_talk(GetRecords(target.revision, 0)),
        dump_talk(GetPeers(64)),
        bytes(16_000),
    )

    async def act(rogue: Rogue) -> None:
        while rogue.ended is None:
            for number, request in enumerate(ask):
                await rogue.ask(request, last=number != 2 or target.dice.random() < 0.5)
            await trio.sleep(PAUSE_S)

    await _callers(target, act)


async def loris(target: Target) -> None:
    """Many that come in, begin a message, and send a byte a second."""

    async def act(rogue: Rogue) -> None:
        await rogue.write((2**20).to_bytes(4) + bytes(500_000))
        while rogue.ended is None:
            await rogue.write(b"x")
            await trio.sleep(1.0)

    await _crowd(40, lambda: _callers(target, act, 30.0, 1.0))


async def replays(target: Target) -> None:
    """Records all that a validator's friend hears, and says it again, as it was and changed."""
    held: dict[bytes, None] = {}
    name = target.name()
    while True:
        with trio.move_on_after(20.0):
            async with linked(target.address, target.network, name) as rogue:
                while rogue.ended is None:
                    for message in rogue.heard[1:]:
                        if message[:1] == b"\x01":
                            held[message] = None
                    rogue.heard.clear()
                    rogue.heard.append(b"")
                    while len(held) > HELD_MOST:
                        del held[next(iter(held))]
                    for message in list(held):
                        await rogue.say(message)
                        if target.dice.random() < 0.01:
                            await rogue.say(_moved(message, target))
                    await trio.sleep(0.02)
        name = target.name()
        await trio.sleep(TRIES_S)


def _moved(message: bytes, target: Target) -> bytes:
    """Of the next height, its signature as it was."""
    talk = load_talk(message)
    assert isinstance(talk, Objects)
    signed = load(talk.envelopes[0], target.network)
    scope = signed.scope
    later = Scope(scope.network, scope.term, scope.experiment, scope.revision, scope.height + 1)
    moved = type(signed)(signed.kind, later, signed.author, signed.content, signed.signature)
    return dump_talk(Objects((dump(moved),)))


async def providers(target: Target) -> None:
    """Promise heights, and answer every question with rubbish, or never."""

    def answer(request: bytes) -> bytes | None:
        if target.dice.random() < 0.3:
            return None
        if isinstance(load_talk(request), GetPeers):
            return answered(encode(Peers(0, (target.dice.randbytes(300),))))
        return answered(target.dice.randbytes(2**16))

    async def act(rogue: Rogue) -> None:
        while rogue.ended is None:
            await rogue.say(dump_talk(Tip(target.revision, 2**40, DecisionId(bytes(32)))))
            await trio.sleep(0.5)

    await _callers(target, act, 5.0, answer=answer)


ATTACKS: dict[str, Callable[[Target], Awaitable[None]]] = {
    "garbage": garbage,
    "half-open": half_open,
    "handshakes": handshakes,
    "identities": identities,
    "objects": objects,
    "questions": questions,
    "ids": ids,
    "nesting": nesting,
    "requests": requests,
    "loris": loris,
    "replays": replays,
    "providers": providers,
}


def main() -> None:
    kind, *where, seconds = sys.argv[1:]

    async def attack() -> None:
        with trio.move_on_after(float(seconds)):
            await ATTACKS[kind](Target(where))

    trio.run(attack)


if __name__ == "__main__":
    main()
