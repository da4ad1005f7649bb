"""The trainer's own steps that no head contains yet: put onto a base, they are where it goes on from.

Only what optimizers move is carried; buffers come from the base. Units: heights of plans.
"""

from collections.abc import Mapping

import torch

from p2pd.core.codecs import is_trained
from p2pd.core.work import Schema

State = Mapping[str, torch.Tensor]


class OwnSteps:
    def __init__(self, schema: Schema) -> None:
        self._names = [tensor.name for tensor in schema.tensors if is_trained(tensor)]
        self._steps: dict[int, dict[str, torch.Tensor]] = {}

    def upon(self, base: State, heights: tuple[int, ...]) -> dict[str, torch.Tensor] | None:
        """The base with the steps of these leases on it; None where none of them is known here."""
        known = [self._steps[height] for height in heights if height in self._steps]
        if not known:
            return None
        state = dict(base)
        for name in self._names:
            total = base[name].double()
            for steps in known:
                total = total + steps[name]
            state[name] = total.to(base[name].dtype)
        return state

    def remember(self, height: int, start: State, end: State, most: int) -> None:
        """Keeps what a lease did, and forgets all but the last ones."""
        self._steps[height] = {
            name: (end[name].detach().cpu().double() - start[name].double()).to(
                torch.float64 if start[name].dtype == torch.float64 else torch.float32
            )
            for name in self._names
        }
        for old in sorted(self._steps)[:-most]:
            del self._steps[old]
