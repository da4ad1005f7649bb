"""Who holds up the event loop is named, with the stack."""

import logging
import signal
import time

import pytest
import trio
import trio.testing

from p2pd.core.health import Health
from p2pd.daemon.watchdog import BEAT_S, BEATS, Watchdog

STALL_S = 0.1


async def beats(watchdog: Watchdog, count: int) -> None:
    while len(watchdog._beats) < count:  # noqa: ASYNC110 - the watchdog tells nobody
        await trio.sleep(BEAT_S / 10)


def blocking_work(duration_s: float) -> None:
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        pass


async def careless() -> None:
    await trio.lowlevel.checkpoint()
    blocking_work(BEAT_S + 4 * STALL_S)


def test_i12_a_stall_is_logged_with_its_task_and_stack_while_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Case F6."""
    health = Health()

    async def main() -> None:
        watchdog = Watchdog(STALL_S, health)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watchdog.run)
                await beats(watchdog, 1)
                assert health.troubles() == ()
                nursery.start_soon(careless, name="careless")
                await beats(watchdog, 3)
                assert watchdog.lag().most_s >= STALL_S
                (trouble,) = health.troubles()
                assert trouble.startswith("event loop: was held up for ")
                assert trouble.endswith(" s by task careless")
                nursery.cancel_scope.cancel()

    with caplog.at_level(logging.WARNING, "p2pd.watchdog"):
        trio.run(main)
    first, second = [one for one in caplog.records if one.name == "p2pd.watchdog"][:2]
    assert first.getMessage() == "task careless holds up the event loop for more than 0.1 s"
    assert first.stack_info is not None
    assert "in blocking_work" in first.stack_info
    assert second.getMessage().startswith("the event loop goes on after ")
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_a_stall_is_forgotten_after_a_while_and_the_lag_is_of_late() -> None:
    async def main() -> None:
        health = Health()
        watchdog = Watchdog(2.0, health)
        watchdog._beat(3.0)
        for _ in range(BEATS - 1):
            watchdog._beat(0.01)
        assert watchdog.lag().most_s == 3.0
        assert watchdog.lag().p99_s == 0.01
        assert health.troubles() == ("event loop: was held up for 3.0 s by what cannot be told",)
        await trio.sleep(BEATS * BEAT_S)
        watchdog._beat(0.01)
        assert watchdog.lag().most_s == 0.01
        assert health.troubles() == ()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
