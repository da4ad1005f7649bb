import pytest
import trio

from p2pd.errors import LocalError
from p2pd.sim.run import run_seeded


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
