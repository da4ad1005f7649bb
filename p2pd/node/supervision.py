"""What becomes of a background task that fails. Seconds.

A service, such as discovery, is started again after a back-off, and the node is degraded meanwhile. What
a node cannot be without, its transport and its role, ends it: its durable state is made for that.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Protocol

import trio

from p2pd.core.backoff import backoff_s
from p2pd.core.health import Health
from p2pd.errors import LocalError, P2pError, UsageError

log = logging.getLogger("p2pd.tasks")

BACKOFF_BASE_S = 1.0
BACKOFF_MOST_S = 60.0
STEADY_S = 30.0
"""A task that has run so long since its last failure works again."""

Task = Callable[[], Awaitable[None]]


class TaskFailedError(LocalError):
    """A task without which the node ends; its cause goes with it."""


class Supervision(Protocol):
    async def keep(self, name: str, task: Task) -> None:
        """Runs a service until cancelled."""
        ...

    def vital(self, name: str) -> AbstractContextManager[None]:
        """Around a task without which the node ends."""
        ...


class Unsupervised:
    """Lets every failure through as it is: a simulation must not hide any."""

    async def keep(self, name: str, task: Task) -> None:
        await task()

    @contextmanager
    def vital(self, name: str) -> Iterator[None]:
        yield


class Supervisor:
    def __init__(self, health: Health, dice: Random) -> None:
        self._health = health
        self._dice = dice

    async def keep(self, name: str, task: Task) -> None:
        failures, said = 0, ""
        while True:
            start_s = trio.current_time()
            error = await self._attempt(name, task)
            if error is None:
                return
            failures = 1 if trio.current_time() - start_s >= STEADY_S else failures + 1
            cause = cause_of(error)
            if failures == 1 or cause != said:
                log.error(
                    "task %s failed, and starts again: %s", name, cause, exc_info=bug_in(error)
                )
                said = cause
            self._health.note(f"task {name}", f"failed {_times(failures)}, last with {cause}")
            await trio.sleep(
                backoff_s(failures, self._dice, base_s=BACKOFF_BASE_S, most_s=BACKOFF_MOST_S)
            )

    async def _attempt(self, name: str, task: Task) -> Exception | None:
        """None: the task has come to its end."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._clear_when_steady, name)
                await task()
                nursery.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - the border of a task: the others go on
            return error
        return None

    async def _clear_when_steady(self, name: str) -> None:
        await trio.sleep(STEADY_S)
        self._health.clear(f"task {name}")

    @contextmanager
    def vital(self, name: str) -> Iterator[None]:
        """Raises TaskFailedError. A UsageError passes as it is: a person reads it."""
        try:
            yield
        except UsageError:
            raise
        except Exception as error:
            raise TaskFailedError(f"task {name} failed: {cause_of(error)}") from error


def cause_of(error: Exception) -> str:
    """In one line, through the groups that nurseries wrap around it."""
    if isinstance(error, ExceptionGroup):
        return "; ".join(dict.fromkeys(cause_of(one) for one in error.exceptions))
    return str(error) if isinstance(error, P2pError) else f"{type(error).__name__}: {error}"


def bug_in(error: BaseException | None) -> BaseException | None:
    """What needs a traceback to make sense of it, if such a thing is at the bottom of error."""
    if isinstance(error, ExceptionGroup):
        return next((bug for one in error.exceptions if (bug := bug_in(one)) is not None), None)
    if isinstance(error, TaskFailedError):
        return bug_in(error.__cause__)
    return None if isinstance(error, P2pError) else error


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
