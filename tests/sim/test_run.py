import signal
from collections.abc import Iterator

import pytest
import trio

from p2pd.errors import LocalError
from p2pd.sim import run
from p2pd.sim.run import LOOK_TURNS, SeldomLooking, run_seeded


def order_of_wakes(seed: int) -> list[int]:
    woken: list[int] = []

    async def sleeper(number: int) -> None:
        await trio.sleep(1.0)
        woken.append(number)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(sleeper, number)

    assert run_seeded(seed, main, 10.0)
    return woken


def test_the_seed_alone_fixes_the_order_in_which_tasks_run() -> None:
    assert order_of_wakes(1) == order_of_wakes(1)
    assert order_of_wakes(1) != order_of_wakes(2)


def test_a_run_is_cut_off_at_its_virtual_time() -> None:
    ticks: list[float] = []

    async def main() -> None:
        while True:
            ticks.append(trio.current_time())
            await trio.sleep(1000.0)

    assert not run_seeded(0, main, 3500.0)
    assert ticks == [0.0, 1000.0, 2000.0, 3000.0]


def test_a_task_that_spins_is_found_and_named() -> None:
    async def spin() -> None:
        while True:
            with trio.move_on_at(trio.current_time()):
                await trio.sleep_forever()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(spin, name="the busy one")

    with pytest.raises(LocalError, match="seed 3: the busy one spins at t=0 s"):
        run_seeded(3, main, 1.0, turns_max=1000)


def test_an_error_comes_out_as_it_is() -> None:
    async def main() -> None:
        await trio.sleep(1.0)
        raise ValueError("from within")

    with pytest.raises(ValueError, match="from within"):
        run_seeded(0, main, 10.0)


class Outside:
    """What a system has for trio, as far as it is looked at."""

    def __init__(self) -> None:
        self.looks: list[float] = []
        self.process_events = self.wait_readable = self.wait_writable = self.notify_closing = id
        self.force_wakeup = self.statistics = self.close = id

    def get_events(self, timeout: float) -> list[tuple[int, int]]:
        self.looks.append(timeout)
        return [(7, 1)]


def test_the_outside_is_looked_at_once_in_some_turns() -> None:
    outside = Outside()
    seldom = SeldomLooking(outside)
    found = [seldom.get_events(0) for _ in range(2 * LOOK_TURNS)]
    assert found == [*[[]] * (LOOK_TURNS - 1), [(7, 1)]] * 2
    assert outside.looks == [0, 0]


def test_where_there_is_time_to_wait_the_outside_is_looked_at() -> None:
    outside = Outside()
    seldom = SeldomLooking(outside)
    assert [seldom.get_events(0.5) for _ in range(3)] == [[(7, 1)]] * 3
    assert outside.looks == [0.5, 0.5, 0.5]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C does something, also in a process that was started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


HOURS = 10_000


def hours_after_ctrl_c() -> int:
    """Virtual hours that a run of HOURS still goes on for."""
    hours = 0

    async def busy() -> None:
        nonlocal hours
        signal.raise_signal(signal.SIGINT)  # a system task is protected from it: trio has to look
        while True:
            await trio.sleep(3600.0)
            hours += 1

    async def main() -> None:
        trio.lowlevel.spawn_system_task(busy)
        await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        run_seeded(0, main, HOURS * 3600.0)
    return hours


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_busy_run_within_some_turns() -> None:
    assert hours_after_ctrl_c() <= LOOK_TURNS


@pytest.mark.usefixtures("interruptible")
def test_who_never_looks_outside_notices_ctrl_c_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LOOK_TURNS", 10**9)
    assert hours_after_ctrl_c() >= HOURS - 1
