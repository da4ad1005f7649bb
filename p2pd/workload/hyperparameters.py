"""Optimizer settings that change at certified steps, so that all trainers change them together.

The table is data, best from the revision's config: nothing but the step decides. Units: optimizer steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from p2pd.errors import WorkloadError

Table = Mapping[str, Mapping[str, Any]]
"""From a step, as text, since JSON has no other keys, to settings of all param groups."""


class Hyperparameters:
    def __init__(
        self,
        table: Table,
        optimizers: Sequence[Optimizer],
        schedulers: Sequence[LRScheduler | None],
    ) -> None:
        """Raises WorkloadError: no step, or no setting of these optimizers that is free to change."""
        self._optimizers = optimizers
        self._entries = sorted((_step(key), dict(settings)) for key, settings in table.items())
        names = {name for _, settings in self._entries for name in settings}
        for name in sorted(names):
            for group in self._groups():
                if name == "params" or name not in group:
                    raise WorkloadError(
                        f"hyperparameters: the optimizer has no setting {name!r}: it has"
                        f" {', '.join(sorted(group.keys() - {'params'}))}"
                    )
        if "lr" in names and any(scheduler is not None for scheduler in schedulers):
            raise WorkloadError("hyperparameters: lr is the scheduler's: leave out one of the two")
        self._initial = [{name: group[name] for name in names} for group in self._groups()]

    def set(self, steps: int) -> None:
        """Makes the next optimizer step number `steps`."""
        now = [settings for start, settings in self._entries if start <= steps]
        for group, initial in zip(self._groups(), self._initial, strict=True):
            group.update(initial)
            for settings in now:
                group.update(settings)

    def _groups(self) -> list[dict[str, Any]]:
        """As they are now: an optimizer whose state was loaded has new ones."""
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]


def _step(key: object) -> int:
    try:
        step = int(str(key))
    except ValueError:
        step = -1
    if step < 0:
        raise WorkloadError(f"hyperparameters: {key!r} is no step: count from 0")
    return step
