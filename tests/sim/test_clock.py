"""Virtual time, and what is posted in it."""

from functools import partial
from math import inf

import trio
import trio.testing

from p2pd.sim.clock import VirtualClock, post
from p2pd.sim.run import run_seeded


def test_what_is_posted_happens_at_its_time_among_what_sleeps() -> None:
    seen: list[tuple[str, float]] = []

    def note(what: str) -> None:
        seen.append((what, trio.current_time()))

    async def main() -> None:
        post(3.0, partial(note, "late"))
        post(1.0, partial(note, "early"))
        await trio.sleep(2.0)
        note("task")
        await trio.sleep(2.0)

    assert run_seeded(0, main, 10.0)
    assert seen == [("early", 1.0), ("task", 2.0), ("late", 3.0)]


def test_what_is_posted_for_one_time_happens_in_order_and_wakes_who_waits() -> None:
    seen: list[int] = []

    async def main() -> None:
        event = trio.Event()
        for number in range(5):
            post(1.0, partial(seen.append, number))
        post(1.0, event.set)
        post(2.0, partial(seen.append, 99))
        await event.wait()
        assert trio.current_time() == 1.0
        assert seen == list(range(5))

    assert run_seeded(0, main, 10.0)


def test_what_is_posted_may_post_and_start_tasks() -> None:
    seen: list[float] = []

    async def main() -> None:
        async def sleeper() -> None:
            await trio.sleep(0.25)
            seen.append(trio.current_time())
            nursery.cancel_scope.cancel()

        def again() -> None:
            if trio.current_time() < 5.0:
                post(trio.current_time() + 1.0, again)
            else:
                nursery.start_soon(sleeper)

        async with trio.open_nursery() as nursery:
            again()
            await trio.sleep_forever()

    assert run_seeded(0, main, 10.0)
    assert seen == [5.25]


def test_who_waits_for_all_to_wait_sees_no_time_pass() -> None:
    seen: list[str] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5.0)
            post(1.0, partial(seen.append, "message"))
            await trio.testing.wait_all_tasks_blocked()
            assert (trio.current_time(), seen) == (0.0, [])
        assert (trio.current_time(), seen) == (5.0, ["message"])

    assert run_seeded(0, main, 10.0)


def test_time_never_goes_back() -> None:
    clock = VirtualClock()

    async def main() -> None:
        await trio.sleep(5.0)
        clock.post(1.0, partial(seen.append, "overdue"))
        await trio.sleep(0.5)
        assert trio.current_time() == 5.5

    seen: list[str] = []
    trio.run(main, clock=clock)
    assert seen == ["overdue"]
    assert clock.current_time() == 5.5 < inf
