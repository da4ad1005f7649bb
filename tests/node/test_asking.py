from collections.abc import Awaitable, Callable

import trio
import trio.testing

from p2pd.core.ids import PeerId
from p2pd.errors import RemoteError, UnreachableError
from p2pd.node.asking import first_answer

PEERS = [PeerId(bytes([n]) * 32) for n in range(4)]


def play(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_silent_peer_holds_up_the_next_one_for_a_moment_only() -> None:
    asked: list[PeerId] = []

    async def ask(peer: PeerId) -> bytes:
        asked.append(peer)
        if peer in PEERS[:2]:
            await trio.sleep_forever()
        await trio.sleep(0.1)
        return peer

    async def main() -> None:
        assert await first_answer(PEERS, ask, stagger_s=0.5, limit_s=20.0) == PEERS[2]
        assert trio.current_time() < 1.2
        assert asked == PEERS[:3]

    play(main)


def test_a_slow_answer_still_counts_while_others_are_asked() -> None:
    async def ask(peer: PeerId) -> int:
        if peer != PEERS[0]:
            raise UnreachableError("gone")
        await trio.sleep(3.0)
        return 7

    async def main() -> None:
        assert await first_answer(PEERS, ask, stagger_s=0.5, limit_s=20.0) == 7

    play(main)


def test_who_fails_is_followed_by_the_next_at_once() -> None:
    async def ask(peer: PeerId) -> PeerId:
        await trio.sleep(0.01)
        if peer != PEERS[3]:
            raise RemoteError("not here")
        return peer

    async def main() -> None:
        assert await first_answer(PEERS, ask, stagger_s=5.0, limit_s=20.0) == PEERS[3]
        assert trio.current_time() < 0.1

    play(main)


def test_nobody_knows() -> None:
    async def ask(peer: PeerId) -> bytes:
        if peer == PEERS[0]:
            await trio.sleep_forever()
        raise RemoteError("not here")

    async def main() -> None:
        assert await first_answer(PEERS, ask, stagger_s=0.5, limit_s=2.0) is None
        assert trio.current_time() == 2.0
        assert await first_answer([], ask, stagger_s=0.5, limit_s=2.0) is None

    play(main)
