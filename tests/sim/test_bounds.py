"""What one author makes a node hold is bounded: the checker sees it where it is not."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from p2pd.core.ids import ArtifactId, PublicKey
from p2pd.core.messages import Beacon, Service
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.sim.bounds import AHEAD, LOOKS_PER_LEASE, OF_ONE, OF_ONE_ELSE, Bounds, Burden
from tests.core.builders import SETTING, TRAINERS, VALIDATORS, running, update

PLAN = running(trainers=2)
HEIGHT = PLAN.height + 1


@dataclass
class Look:
    said: list[tuple[str, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.note)
        self.bounds.on_begun("validator1")

    def note(self, invariant: str, height: int, what: str) -> None:
        self.said.append((invariant, height, what))

    def end(self, **burden: Any) -> list[tuple[str, int, str]]:
        empty = Burden((), (), ())
        self.bounds.on_ended("validator1", PLAN, replace(empty, **burden))
        return self.said


def votes(count: int, height: int = HEIGHT) -> list[Signed[Any]]:
    key, scope = VALIDATORS[0].key, SETTING.scope(height)
    contents = [Vote(Step.PREVOTE, n, None, NO_ROUND, ()) for n in range(count)]
    return [Signed("vote", scope, key, content, bytes(64)) for content in contents]


def test_i09_what_is_bounded_is_no_violation() -> None:
    look = Look()
    beacon = Signed("beacon", SETTING.scope(HEIGHT), TRAINERS[0].key, Beacon(Service.TRAIN), b"")
    held = [*votes(OF_ONE["vote"]), *votes(OF_ONE["vote"], HEIGHT - 1), beacon]
    for _ in range(LOOKS_PER_LEASE * 2):
        look.bounds.on_look("validator1")
    updates = [ArtifactId(bytes([n]) * 32) for n in range(4)]
    assert look.end(held=held, ahead=votes(8, HEIGHT + 1), updates=updates) == []
    for _ in range(LOOKS_PER_LEASE * 4):  # those of the height before may have come late
        look.bounds.on_look("validator1")
    assert look.end() == []


@pytest.mark.parametrize(
    ("held", "what"),
    [
        (votes(97), "holds 97 objects of kind vote of one author"),
        (
            [update(PLAN, TRAINERS[0], samples=n + 1) for n in range(OF_ONE_ELSE + 1)],
            "holds 5 objects of kind update of one author",
        ),
    ],
)
def test_i09_too_much_of_one_author_is_seen(held: list[Signed[Any]], what: str) -> None:
    assert Look().end(held=held) == [("I9", HEIGHT, f"validator1 {what}")]


def test_i09_too_much_that_waits_is_seen() -> None:
    assert Look().end(ahead=votes(9)) == [
        ("I9", HEIGHT, "validator1 lets 9 objects of one author wait")
    ]
    many = [replace(votes(1)[0], author=PublicKey(n.to_bytes(32))) for n in range(AHEAD + 1)]
    assert Look().end(ahead=many) == [("I9", HEIGHT, f"validator1 lets {AHEAD + 1} objects wait")]


def test_i09_too_many_updates_kept_or_looked_into_are_seen() -> None:
    look = Look()
    assert look.end(updates=range(5)) == [("I9", HEIGHT, "validator1 keeps 5 updates for 2 leases")]
    look.said.clear()
    for _ in range(LOOKS_PER_LEASE * 4 + 1):
        look.bounds.on_look("validator1")
    assert look.end() == [("I9", HEIGHT, "validator1 looked into 17 updates for 2 leases")]
