import socket
from collections.abc import Iterator
from threading import Event

import pytest

from p2pd.core.encoding import encode
from p2pd.tensors.frames import write_frame
from p2pd.workload.contract import Cancelled
from p2pd.workload.devices import crew as crews
from p2pd.workload.devices.crew import Crew, Fellow, FellowError, LinkLostError
from p2pd.workload.protocol import Answer, Failure, Outcome

LIMIT_S = 30.0


class Table:
    """A crew of two, whose part is played here."""

    def __init__(self) -> None:
        pairs = [socket.socketpair() for _ in range(2)]
        self.theirs = [theirs for _, theirs in pairs]
        self.crew = Crew([Fellow(rank, ours, None) for rank, (ours, _) in enumerate(pairs, 1)])
        self.said: list[str] = []
        self.given_up = Event()

    def answer(self, rank: int, outcome: Outcome, body: bytes = b"") -> None:
        write_frame(self.theirs[rank - 1].fileno(), encode(Answer(0, outcome, body)))

    def fail(self, rank: int) -> None:
        self.answer(rank, Outcome.FAILED, encode(Failure("no such luck")))

    def give_up(self, message: str) -> None:
        self.said.append(message)
        self.given_up.set()


@pytest.fixture
def table() -> Iterator[Table]:
    made = Table()
    yield made
    made.crew.close()
    for link in made.theirs:
        link.close()


def test_answers_come_in_the_order_of_ranks(table: Table) -> None:
    table.answer(2, Outcome.DONE, b"two")
    table.answer(1, Outcome.DONE, b"one")
    assert [answer.body for answer in table.crew.answers()] == [b"one", b"two"]


def test_whoever_fails_or_ends_is_named_while_others_are_waited_for(table: Table) -> None:
    table.fail(2)
    with pytest.raises(FellowError, match=r"^worker 2 failed: no such luck$"):
        table.crew.answers()
    table.theirs[0].close()
    with pytest.raises(FellowError, match=r"^worker 1 failed: its connection ended$"):
        table.crew.answers()


def test_what_a_fellow_says_is_why_the_main_worker_lost_it(table: Table) -> None:
    def train() -> None:
        with table.crew.watched(table.give_up):
            table.answer(1, Outcome.LOST)
            table.fail(2)
            raise LinkLostError("connection closed")

    with pytest.raises(FellowError, match=r"^worker 2 failed: no such luck$"):
        train()
    assert table.said == []


def test_where_nobody_says_why_it_is_the_main_worker_that_failed(table: Table) -> None:
    def train() -> None:
        with table.crew.watched(table.give_up):
            for rank in (1, 2):
                table.answer(rank, Outcome.LOST)
            raise LinkLostError("connection closed")

    with pytest.raises(FellowError, match=r"^main worker failed: connection closed$"):
        train()


def test_a_main_worker_that_fails_itself_waits_for_nobody(table: Table) -> None:
    def train() -> None:
        with table.crew.watched(table.give_up):
            raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        train()


def test_a_main_worker_that_does_not_come_free_is_given_up(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "FREE_S", 0.01)

    def train() -> None:
        with table.crew.watched(table.give_up):
            table.fail(1)
            assert table.given_up.wait(LIMIT_S)  # in place of a collective that never ends

    with pytest.raises(FellowError, match=r"^worker 1 failed: no such luck$"):
        train()
    assert table.said == ["worker 1 failed: no such luck"]


def test_a_main_worker_that_fails_and_cannot_take_down_what_it_shared_is_given_up(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "FREE_S", 0.01)

    def train() -> None:
        with table.crew.watched(table.give_up) as guard:
            try:
                with guard.over():
                    raise ValueError("its own")
            finally:
                assert table.given_up.wait(
                    LIMIT_S
                )  # in place of a collective that waits for others

    with pytest.raises(ValueError, match="its own"):
        train()
    assert table.said == ["main worker failed: ValueError: its own"]


def test_a_fellow_that_comes_short_fails_the_lease(table: Table) -> None:
    def train() -> None:
        with table.crew.watched(table.give_up):
            table.answer(1, Outcome.DONE)
            table.answer(2, Outcome.LOST)

    with pytest.raises(FellowError, match="worker 2 failed: it had not come to the end when"):
        train()


def test_all_stop_before_an_interrupt_is_told(table: Table) -> None:
    def train() -> None:
        with table.crew.watched(table.give_up):
            for rank in (1, 2):
                table.answer(rank, Outcome.CANCELLED)
            raise Cancelled("the lease is over")

    with pytest.raises(Cancelled, match="the lease is over"):
        train()
    assert table.said == []
