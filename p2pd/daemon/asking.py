"""A worker process for as long as something is asked of it. From the main thread."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from p2pd.errors import P2pError
from p2pd.io.worker import WorkerProcess

T = TypeVar("T")


async def asking(worker: WorkerProcess, ask: Callable[[WorkerProcess], Awaitable[T]]) -> T:
    """What ask returns or raises; the process is gone by then."""
    answer: T | P2pError
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        try:
            answer = await ask(worker)
        except P2pError as error:
            answer = error  # raised outside of the nursery, which would wrap it
        nursery.cancel_scope.cancel()
    if isinstance(answer, P2pError):
        raise answer
    return answer
