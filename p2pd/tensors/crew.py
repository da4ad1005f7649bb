"""Work on many chunks in a few threads, its results in order. Which thread did what changes no bit.

numpy lets other threads run while it computes, and hashing and writing do so too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

AHEAD = 2
"""Results per thread that may wait for whoever takes them, and as many items that were put off.

What bounds the memory.
"""

T = TypeVar("T")
R = TypeVar("R")


class Crew:
    def __init__(self, pool: ThreadPoolExecutor | None = None, threads: int = 1) -> None:
        """Without a pool, the caller's own thread does everything; for others use hired()."""
        self._pool = pool
        self._most = AHEAD * threads
        self._late: deque[Future[Any]] = deque()

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """What work makes of each item, in the order of items. What it raises comes at its place."""
        if self._pool is None:
            yield from map(work, items)
            return
        under_way: deque[Future[R]] = deque()
        try:
            for item in items:
                under_way.append(self._pool.submit(work, item))
                if len(under_way) > self._most:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def later(self, work: Callable[[T], R], item: T) -> Future[R]:
        """Beside what the caller does next. Where as much as may be is put off already, it waits first.

        What work raises comes with the result, or from the call that waits for it.
        """
        if self._pool is None:
            done: Future[R] = Future()
            done.set_result(work(item))
            return done
        if len(self._late) == self._most:
            oldest = self._late.popleft()
            wait([oldest])
            if not oldest.cancelled():
                oldest.result()
        future = self._pool.submit(work, item)
        self._late.append(future)
        return future


@contextmanager
def hired(threads: int) -> Iterator[Crew]:
    """One thread means the caller's own."""
    if threads == 1:
        yield Crew()
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="crew") as pool:
        yield Crew(pool, threads)
