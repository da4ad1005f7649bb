import threading
from collections.abc import Iterator

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
