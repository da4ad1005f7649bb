import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait

import pytest

from p2pd.tensors.crew import AHEAD, hired


def test_results_come_in_the_order_of_the_items_whoever_is_ready_first() -> None:
    turn = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert turn.wait(10)
        else:
            turn.set()
        return item

    with hired(2) as crew:
        assert list(crew.each(work, range(20))) == list(range(20))


def test_one_thread_is_the_callers_own() -> None:
    with hired(1) as crew:
        (thread,) = crew.each(lambda _: threading.current_thread(), [0])
    assert thread is threading.current_thread()


def test_work_runs_ahead_of_its_taker_by_a_bounded_number_of_results() -> None:
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            drawn.append(item)
            yield item

    with hired(2) as crew:
        results = crew.each(lambda item: item, items())
        assert next(results) == 0
        assert len(drawn) == 2 * AHEAD + 1


def test_what_work_raises_comes_at_its_place() -> None:
    with hired(2) as crew:
        results = crew.each(lambda item: 1 / item, [1, 2, 0, 4])
        assert [next(results), next(results)] == [1.0, 0.5]
        with pytest.raises(ZeroDivisionError):
            next(results)


def test_what_is_put_off_by_one_thread_is_done_at_once_by_the_callers_own() -> None:
    with hired(1) as crew:
        future = crew.later(lambda _: threading.current_thread(), 0)
        assert future.done()
        assert future.result() is threading.current_thread()
        with pytest.raises(ZeroDivisionError):
            crew.later(lambda item: 1 / item, 0)


def test_more_is_put_off_only_when_the_oldest_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    put_off: list[Future[bool]] = []
    waited: list[int] = []

    def note(oldest: Sequence[Future[bool]]) -> None:
        waited.append(len(put_off))
        assert list(oldest) == put_off[:1]
        gate.set()
        wait(oldest)

    monkeypatch.setattr("p2pd.tensors.crew.wait", note)
    with hired(2) as crew:
        try:
            put_off.extend(crew.later(lambda _: gate.wait(10), item) for item in range(2 * AHEAD))
            assert waited == []
            put_off.append(crew.later(lambda _: gate.wait(10), 2 * AHEAD))
            assert waited == [2 * AHEAD]
            assert put_off[0].done()
        finally:
            gate.set()
        assert all(future.result() for future in put_off)


def test_what_raised_stops_who_puts_off_more_but_what_was_given_up_does_not() -> None:
    gate = threading.Event()
    with hired(2) as crew:
        given_up = [crew.later(lambda _: gate.wait(10), item) for item in range(2 * AHEAD)]
        assert given_up[-1].cancel()
        gate.set()
        failing = [crew.later(lambda item: 1 / item, 0) for _ in range(2 * AHEAD)]
        with pytest.raises(ZeroDivisionError):
            failing[0].result()
        with pytest.raises(ZeroDivisionError):
            crew.later(lambda item: 1 / item, 1)
