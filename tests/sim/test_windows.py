"""Windows end when they are over, and count what was signed for them: the checker sees it where they do not."""

from dataclasses import dataclass, field, replace

import pytest

from p2pd.core.decision import Decision
from p2pd.core.ids import DecisionId
from p2pd.core.messages import Choices
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.window import LEAVE_HEARD_S
from p2pd.sim.clock import SKEW_MOST
from p2pd.sim.windows import Windows
from p2pd.wire.envelope import seal
from tests.core.builders import (
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    leave,
    release,
    running,
    setting_of,
    update,
)

WIDE = setting_of(max_roster=8)
PLAN = running(trainers=5, setting=WIDE)
UPDATES = [update(PLAN, TRAINERS[n], WIDE) for n in range(5)]
NAMES = {VALIDATORS[0].peer: "validator1"}
SOONEST_S = WIDE.revision.schedule.deadline_ms / 1000 / (1.0 + SKEW_MOST)
"""When the fastest clock is at the deadline."""


@dataclass
class Look:
    """A checker, and what it said."""

    at_s: float = 10.0
    said: list[tuple[str, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.windows = Windows(self.note, WIDE, NAMES, lambda: self.at_s)
        self.windows.on_entered("validator1", PLAN)

    def note(self, invariant: str, height: int, what: str) -> None:
        self.said.append((invariant, height, what))

    def vote(self, value: DecisionId | None = None) -> list[tuple[str, int, str]]:
        content = Vote(Step.PREVOTE, 0, value or PLAN.id, NO_ROUND, ())
        self.windows.on_sent(seal(VALIDATORS[0], "vote", WIDE.scope(2), content))
        return self.said


HASTY = [("window", 2, "validator1 voted while every window was open")]


def test_a_vote_while_every_window_is_open_is_seen_once() -> None:
    look = Look()
    for one in UPDATES[:3]:
        look.windows.on_heard(one)
    look.at_s += SOONEST_S - 0.1
    assert look.vote() == HASTY
    assert look.vote() == HASTY


def test_a_window_is_over_once_all_have_delivered_or_released() -> None:
    look = Look()
    for one in UPDATES[:4]:
        look.windows.on_heard(one)
    look.windows.on_heard(release(PLAN, TRAINERS[4], WIDE))
    assert look.vote() == []


@pytest.mark.parametrize(("waited_s", "said"), [(-0.01, HASTY), (0.0, [])])
@pytest.mark.parametrize("height", [1, 2])
def test_a_window_is_over_half_a_second_after_the_last_one_has_left(
    height: int, waited_s: float, said: list[tuple[str, int, str]]
) -> None:
    look = Look()
    for one in UPDATES[:3]:
        look.windows.on_heard(one)
    for who in TRAINERS[3:5]:
        look.windows.on_heard(leave(height, who, WIDE))
    look.at_s += LEAVE_HEARD_S / (1.0 + SKEW_MOST) + waited_s
    assert look.vote() == said


def test_a_window_is_over_at_its_deadline() -> None:
    look = Look()
    look.at_s += SOONEST_S
    assert look.vote() == []


@pytest.mark.parametrize(("waited_s", "said"), [(2.9, HASTY), (3.0, [])])
def test_a_window_is_over_half_as_long_again_after_most_of_it(
    waited_s: float, said: list[tuple[str, int, str]]
) -> None:
    look = Look()
    look.at_s += 2.0
    for one in UPDATES[:4]:
        look.windows.on_heard(one)
    look.at_s = 10.0 + waited_s
    assert look.vote() == said


def counted(chosen: Choices, *decisions: Decision) -> list[tuple[str, int, str]]:
    look = Look()
    for decision in (*decisions, follow(PLAN, chosen, WIDE)):
        look.windows.on_decision(decision)
    return look.said


def test_what_holds_is_not_complained_about() -> None:
    assert counted(choices(PLAN, UPDATES, all_present(PLAN, setting=WIDE))) == []


def test_i03_an_object_that_its_author_did_not_sign_is_seen() -> None:
    forged = replace(UPDATES[0], signature=bytes(64))
    (said,) = counted(choices(PLAN, [forged, *UPDATES[1:]]))
    assert said == ("I3", 2, "update of a stranger or liar: its author did not sign it")


def test_i07_an_update_that_counts_twice_is_seen() -> None:
    chosen = choices(PLAN, UPDATES[:1])
    (said,) = counted(chosen, follow(PLAN, chosen, WIDE))
    assert said == ("I7", 2, "update of a stranger or liar: counted before")
