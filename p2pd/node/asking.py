"""One question to several peers, of whom the first right answer counts. Seconds."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from p2pd.core.ids import PeerId
from p2pd.errors import RemoteError, UnreachableError

T = TypeVar("T")


async def first_answer(
    peers: Sequence[PeerId],
    ask: Callable[[PeerId], Awaitable[T]],
    *,
    stagger_s: float,
    limit_s: float,
) -> T | None:
    """Asks one more peer each time that the last one failed, or said nothing for stagger_s.

    None if nobody gave a right answer; ask raises RemoteError or UnreachableError for a wrong one.
    """
    answers: list[T] = []

    async def attempt(peer: PeerId, over: trio.Event) -> None:
        try:
            with trio.move_on_after(limit_s):
                answers.append(await ask(peer))
                nursery.cancel_scope.cancel()
        except (RemoteError, UnreachableError):
            return  # the next one may know
        finally:
            over.set()

    async with trio.open_nursery() as nursery:
        for peer in peers:
            over = trio.Event()
            nursery.start_soon(attempt, peer, over)
            with trio.move_on_after(stagger_s):
                await over.wait()
    return answers[0] if answers else None
