"""When one node was through with each step of a height: shown to people, decided on by nobody. Seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from p2pd.core.decision import Decision
from p2pd.core.trainer import Trained
from p2pd.core.validator.events import EvaluationDone, Fetched, Inspected, MergeDone


class Step(Enum):
    """In the order in which a validator takes them."""

    PUBLISH = "publish"
    """The last update was announced."""
    FETCH = "fetch"
    """The last artifact was there; a trainer's is the head that it starts from."""
    SCREEN = "screen"
    MERGE = "merge"
    EVALUATE = "evaluate"
    PROPOSE = "propose"
    """The first proposal was there: until then updates are waited for, checked, merged and measured."""
    VOTE = "vote"
    """The certificate was there."""
    ADOPT = "adopt"
    """It was stored, and the next height is open."""
    TRAIN = "train"
    """On a trainer: its update was made."""


EVENTS: Mapping[type, Step] = {
    Fetched: Step.FETCH,
    Inspected: Step.SCREEN,
    MergeDone: Step.MERGE,
    EvaluationDone: Step.EVALUATE,
    Trained: Step.TRAIN,
}
"""What tells a role that a step is done."""


@dataclass(frozen=True, slots=True)
class HeightTimes:
    """Where the time of one height went, as this node saw it."""

    decision: Decision
    reached: Mapping[Step, float]
    """When each step was done for the last time, since the plan was adopted; the first proposal came but once."""
    live: bool = True
    """Seen from its plan to its decision as both came; False for what this node caught up on."""

    @property
    def train_s(self) -> float:
        """From the plan's adoption to the last update's announcement."""
        return self.reached.get(Step.PUBLISH, 0.0)

    @property
    def overhead_s(self) -> float:
        """From there to this decision's adoption: fetch, screen, merge, evaluate, vote."""
        return self.reached[Step.ADOPT] - self.train_s

    @property
    def vote_s(self) -> float | None:
        """Of that, from the first proposal on; None where this node saw none."""
        proposed_s = self.reached.get(Step.PROPOSE)
        if proposed_s is None:
            return None
        return self.reached[Step.ADOPT] - max(proposed_s, self.train_s)

    @property
    def took_s(self) -> float | None:
        """From the plan's adoption to the decision's."""
        return self.reached.get(Step.ADOPT) if self.live else None


class Steps:
    """Of the height that is open."""

    def __init__(self) -> None:
        self.opened_s = 0.0
        """When its plan was adopted."""
        self._reached: dict[Step, float] = {}
        self._live = False
        """Whether its plan was the newest one when it was adopted."""

    def note(self, step: Step, now_s: float) -> None:
        self._reached[step] = now_s - self.opened_s

    def proposed(self, now_s: float) -> None:
        self._reached.setdefault(Step.PROPOSE, now_s - self.opened_s)

    def saw(self, event: object, now_s: float) -> None:
        step = EVENTS.get(type(event))
        if step is not None:
            self.note(step, now_s)

    def turn(self, decision: Decision, now_s: float, *, newest: bool) -> HeightTimes:
        """The height is decided, and the next one open. newest: nobody is known to be further."""
        self.note(Step.ADOPT, now_s)
        times = HeightTimes(decision, self._reached, self._live and newest)
        self.opened_s, self._reached, self._live = now_s, {}, newest
        return times
