"""What is logged again and again."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from p2pd.daemon.folding import BURST, Folding

PERIOD_S = 60.0


class Written(logging.Handler):
    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@dataclass
class Bench:
    written: Written = field(default_factory=Written)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.folding = Folding((self.written,), (self.written,), PERIOD_S, lambda: self.now_s)


@contextmanager
def logging_to(bench: Bench, name: str = "p2pd.tests.folding") -> Iterator[logging.Logger]:
    log = logging.getLogger(name)
    level = log.level
    log.addHandler(bench.folding)
    log.setLevel(logging.INFO)
    try:
        yield log
    finally:
        log.removeHandler(bench.folding)
        log.setLevel(level)


def test_the_same_message_is_written_once_and_then_counted() -> None:
    bench = Bench()
    with logging_to(bench) as log:
        for second in range(100):
            bench.now_s = float(second)
            log.warning("seed %s is out of reach", "10.0.0.1:4700")
        log.info("something else")
    bench.folding.close()
    once = "seed 10.0.0.1:4700 is out of reach"
    assert bench.written.lines == [
        once,
        f"59 more like this: {once}",
        once,
        "something else",
        f"39 more like this: {once}",
    ]


def test_i09_messages_of_one_place_are_bounded_however_much_they_differ() -> None:
    """Case J4: refused a hundred times a second for a minute, from ever new peers."""
    bench = Bench()
    with logging_to(bench) as log:
        for n in range(6000):
            bench.now_s = n / 100
            log.warning("closing the link to %d: too many objects that do not hold", n)
    bench.folding.close()
    assert len(bench.written.lines) == BURST + 1
    assert bench.written.lines[-1].startswith(f"{6000 - BURST} more like this: closing the link")


def test_what_was_left_out_is_told_when_nothing_more_is_logged() -> None:
    bench = Bench()
    with logging_to(bench) as log:
        for _ in range(3):
            log.info("joined")
    bench.folding.tell(all_of_it=False)
    assert bench.written.lines == ["joined"]
    bench.now_s = PERIOD_S
    bench.folding.tell(all_of_it=False)
    bench.folding.tell(all_of_it=True)
    assert bench.written.lines == ["joined", "2 more like this: joined"]


def test_places_and_levels_do_not_share_their_room() -> None:
    bench = Bench()
    with logging_to(bench) as log:
        for n in range(2 * BURST):
            log.info("noise %d", n)
        log.info("a rare event")
        for level in (logging.INFO, logging.ERROR):
            log.log(level, "one place, two levels")
    assert bench.written.lines[BURST:] == ["a rare event", *["one place, two levels"] * 2]


@pytest.mark.parametrize(("name", "lines"), [("p2pd.workload", 50), ("p2pd.workload.inner", BURST)])
def test_what_the_workload_prints_is_left_as_it_is(name: str, lines: int) -> None:
    bench = Bench()
    with logging_to(bench, name) as log:
        for n in range(50):
            log.info("epoch %d", n)
    assert len(bench.written.lines) == lines
