"""One question to several peers, of whom the first right answer counts. Seconds."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from p2pd.core.ids import DecisionId, PeerId, RevisionId
from p2pd.core.talk import GetChoices, dump_talk
from p2pd.core.validator.body import load_body
from p2pd.errors import RemoteError, UnreachableError
from p2pd.ports import Transport
from p2pd.wire.records import MAX_RECORD_BYTES

REQUEST_S = 20.0
STAGGER_S = 0.5
"""A silent holder of choices holds up the next one so long."""

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


async def ask_while(
    wanted: Callable[[], bool], ask: Callable[[], Awaitable[T | None]], pause_s: float
) -> T | None:
    """Again and again, until there is an answer or nobody wants it any more."""
    while wanted():
        found = await ask()
        if found is not None:
            return found
        await trio.sleep(pause_s)
    return None


async def ask_for_choices(
    transport: Transport, revision: RevisionId, value: DecisionId, holders: Sequence[PeerId]
) -> bytes | None:
    """Those behind a value; None if no holder gives them now."""
    request = dump_talk(GetChoices(revision, value))

    async def ask(holder: PeerId) -> bytes:
        data = await transport.request(holder, request, limit_bytes=MAX_RECORD_BYTES)
        return load_body(data, value, limit_bytes=MAX_RECORD_BYTES)

    return await first_answer(holders, ask, stagger_s=STAGGER_S, limit_s=REQUEST_S)
