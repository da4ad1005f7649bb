"""Virtual time, and what is posted in it."""

from functools import partial
from math import inf

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from p2pd.sim.clock import KEPT, SKEW_MOST, Skew, VirtualClock, pause, true_now_s, virtual_clock
from p2pd.sim.run import Deadlines, run_seeded


def test_what_is_posted_happens_at_its_time_among_what_sleeps() -> None:
    seen: list[tuple[str, float]] = []

    def note(what: str) -> None:
        seen.append((what, trio.current_time()))

    async def main() -> None:
        virtual_clock().post(3.0, partial(note, "late"))
        virtual_clock().post(1.0, partial(note, "early"))
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
            virtual_clock().post(1.0, partial(seen.append, number))
        virtual_clock().post(1.0, event.set)
        virtual_clock().post(2.0, partial(seen.append, 99))
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
                virtual_clock().post(trio.current_time() + 1.0, again)
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
            virtual_clock().post(1.0, partial(seen.append, "message"))
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


@given(
    rate=st.floats(1.0 - SKEW_MOST, 1.0 + SKEW_MOST),
    origin_s=st.floats(0.0, 1e6),
    after_s=st.floats(0.0, 1e5),
)
def test_a_deadline_never_comes_before_the_clock_that_it_was_set_by_says_so(
    rate: float, origin_s: float, after_s: float
) -> None:
    skew = Skew(rate, origin_s)
    shown_s = skew.shown_s(after_s)
    assert skew.shown_s(skew.true_s(shown_s)) >= shown_s
    assert skew.true_s(shown_s) == pytest.approx(after_s, abs=1e-6)
    assert skew.true_s(inf) == inf


def test_each_node_sleeps_by_its_own_clock_and_so_do_the_tasks_that_it_starts() -> None:
    woken: list[tuple[str, float, float]] = []

    async def sleeper(name: str) -> None:
        start_s = trio.current_time()
        await trio.sleep(100.0)
        woken.append((name, trio.current_time() - start_s, true_now_s()))

    async def node(name: str, skew: Skew) -> None:
        KEPT.set(skew)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeper, name)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node, "slow", Skew(0.99, 5e5))
            nursery.start_soon(node, "fast", Skew(1.01, 7.0))
            nursery.start_soon(sleeper, "true")

    assert run_seeded(0, main, 200.0)
    assert [name for name, _, _ in woken] == ["fast", "true", "slow"]
    assert [slept for _, slept, _ in woken] == pytest.approx([100.0] * 3)
    assert [at for _, _, at in woken] == pytest.approx([100 / 1.01, 100.0, 100 / 0.99])


def test_deadlines_that_were_set_anew_or_are_over_are_let_go() -> None:
    async def main() -> None:
        KEPT.set(Skew(1.01, 50.0))
        deadlines = trio._core._run.GLOBAL_RUN_CONTEXT.runner.deadlines
        assert isinstance(deadlines, Deadlines)
        with trio.CancelScope() as scope:
            for n in range(5000):
                scope.deadline = trio.current_time() + 10.0 + n % 2
            for _ in range(3000):
                with trio.move_on_after(1000.0):
                    await trio.lowlevel.checkpoint()
            await trio.sleep(1.0)
            assert len(deadlines._rows) < 2100
            await trio.sleep_forever()
        assert true_now_s() == pytest.approx(11 / 1.01)

    assert run_seeded(0, main, 60.0)


def test_a_pause_is_in_true_time_among_what_is_posted_and_can_be_cancelled() -> None:
    seen: list[tuple[str, float]] = []

    async def fast() -> None:
        KEPT.set(Skew(1.0 + SKEW_MOST))
        await pause(2.0)
        seen.append(("fast", true_now_s()))

    async def cancelled() -> None:
        with trio.move_on_after(1.5):
            await pause(2.0)
        seen.append(("cancelled", true_now_s()))
        await pause(1.0)
        seen.append(("again", true_now_s()))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fast)
            nursery.start_soon(cancelled)

    assert run_seeded(0, main, 10.0)
    assert seen == [("cancelled", 1.5), ("fast", 2.0), ("again", 2.5)]


def test_a_pause_on_another_clock_is_a_sleep() -> None:
    async def main() -> None:
        before_s = trio.current_time()
        await pause(2.0)
        assert trio.current_time() - before_s == 2.0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))
