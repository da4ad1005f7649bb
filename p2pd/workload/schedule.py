"""Puts a learning-rate scheduler to where the whole network is, wherever this process was.

Works for every scheduler that counts steps, closed form or not: its state is kept at the last
certified progress, and step() is repeated from there. Units: optimizer steps.
"""

import copy
import math
import warnings
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR, ReduceLROnPlateau

from p2pd.errors import WorkloadError


@dataclass(frozen=True, slots=True)
class _Mark:
    steps: int
    scheduler: dict[str, Any]
    groups: list[dict[str, Any]]
    """Hyperparameters of the optimizer: schedulers compute the next ones from them."""


class Schedule:
    def __init__(self, optimizer: Optimizer, scheduler: LRScheduler | None, every: int = 1) -> None:
        """The scheduler steps after every so many optimizer steps.

        Raises:
            WorkloadError: it follows something else.
        """
        if isinstance(scheduler, ReduceLROnPlateau):
            raise WorkloadError(
                "ReduceLROnPlateau follows a metric, which each validator measures for itself and"
                " none certifies: use a scheduler that counts steps"
            )
        if scheduler is not None and scheduler.optimizer is not optimizer:
            raise WorkloadError(
                "a scheduler belongs to another optimizer: give schedulers in the optimizers' order"
            )
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._every = every
        self._at_steps = 0
        self._start = self._mark = self._take_mark()

    def seek(self, steps: int) -> None:
        """Makes the next optimizer step number `steps` of the schedule, from 0."""
        if steps < self._mark.steps:
            self._mark = self._start
        self._restore(self._mark)
        with warnings.catch_warnings():
            # The steps before this one were made by other processes.
            warnings.filterwarnings("ignore", message=r"Detected call of `lr_scheduler\.step\(\)`")
            while self._at_steps < steps:
                self.step()
        self._mark = self._take_mark()

    def step(self) -> None:
        """After one optimizer step."""
        self._at_steps += 1
        if self._scheduler is None or self._at_steps % self._every:
            return
        # OneCycleLR refuses to go past its end, and progress is nominal: hold its last value.
        last = (
            self._scheduler.total_steps - 1 if isinstance(self._scheduler, OneCycleLR) else math.inf
        )
        if self._at_steps // self._every <= last:
            self._scheduler.step()

    def _take_mark(self) -> _Mark:
        state = {} if self._scheduler is None else self._scheduler.state_dict()
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            for group in self._optimizer.param_groups
        ]
        return _Mark(self._at_steps, copy.deepcopy(state), copy.deepcopy(groups))

    def _restore(self, mark: _Mark) -> None:
        self._at_steps = mark.steps
        if self._scheduler is None:
            return
        self._scheduler.load_state_dict(copy.deepcopy(mark.scheduler))
        for group, saved in zip(self._optimizer.param_groups, mark.groups, strict=True):
            group.update(copy.deepcopy(saved))
