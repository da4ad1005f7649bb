"""The trainer's own steps that no head contains yet: put onto a base, they are where it goes on from.

Of what optimizers move the steps are carried. Floating buffers, running means and the like, are as the
last of these leases left them: those of the base belong to older weights. Other buffers come from the base.
Units: heights of plans.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from p2pd.core.codecs import is_trained
from p2pd.core.work import MILLION, Schema
from p2pd.errors import RemoteError
from p2pd.tensors.files import TensorFile
from p2pd.workload.generations import Generations, at_a_loss
from p2pd.workload.state import DTYPES
from p2pd.workload.trees import read_tree, write_tree

STEPS, WEIGHTS = "steps", "own"
"""Kinds of files."""

State = Mapping[str, torch.Tensor]


class OwnSteps:
    def __init__(self, schema: Schema, directory: Path | None = None) -> None:
        """directory: the trainer's own, where they outlive its process."""
        self._names = [tensor.name for tensor in schema.tensors if is_trained(tensor)]
        self._buffers = [
            tensor.name
            for tensor in schema.tensors
            if DTYPES[tensor.dtype].is_floating_point and not is_trained(tensor)
        ]
        self._steps: dict[int, State] = {}
        self._files = Generations(directory, STEPS) if directory else None
        self._weights: tuple[int, State] | None = None
        """With the height of the lease that left them."""
        self._weight_files = Generations(directory, WEIGHTS) if directory else None

    def upon(self, base: State, heights: tuple[int, ...]) -> dict[str, torch.Tensor] | None:
        """The base with the steps of these leases on it; None where none of them is known here."""
        found = (self._steps.get(height) or self._read(height) for height in heights)
        known = [steps for steps in found if steps is not None]
        if not known:
            return None
        state = dict(base)
        for name in self._names:
            total = base[name].double()
            for steps in known:
                total = total + steps[name]
            state[name] = total.to(base[name].dtype)
        return state | {name: known[-1][name] for name in self._buffers}

    def mixed(self, base: State, height: int, share: int) -> dict[str, torch.Tensor] | None:
        """A mean of the base and of where the newest lease below a height had come to; None where that is not known.

        share: of the latter, millionths.
        """
        own = self._weights_below(height)
        if own is None:
            return None
        state = dict(base)
        for name in self._names:
            mean = base[name].double() * (1 - share / MILLION) + own[name] * (share / MILLION)
            state[name] = mean.to(base[name].dtype)
        return state

    def stand(self, height: int, end: State) -> None:
        """Keeps where a lease has come to. Durable after sync."""
        weights = {name: end[name].detach().cpu().clone() for name in self._names}
        self._weights = height, weights
        if self._weight_files is not None:
            with at_a_loss():
                # What the last lease left, and what that started from.
                self._weight_files.keep(height, partial(write_tree, tree=weights), 2)

    def _weights_below(self, height: int) -> State | None:
        if self._weights is not None and self._weights[0] < height:
            return self._weights[1]
        earlier = self._weight_files.below(height) if self._weight_files is not None else []
        return (
            self._weight_files.read(earlier[0], partial(_take, self._names))
            if earlier and self._weight_files
            else None
        )

    def remember(self, height: int, start: State, end: State, most: int) -> None:
        """Keeps what a lease did, and forgets all but the last ones. Durable after sync."""
        steps = {
            name: (end[name].detach().cpu().double() - start[name].double()).to(
                torch.float64 if start[name].dtype == torch.float64 else torch.float32
            )
            for name in self._names
        }
        steps |= {name: end[name].detach().cpu().clone() for name in self._buffers}
        self._steps[height] = steps
        if self._files is not None:
            # One more, for a lease that is trained again after a crash.
            with at_a_loss():
                self._files.keep(height, partial(write_tree, tree=steps), most + 1)
        for old in sorted(self._steps)[:-most]:
            del self._steps[old]

    def sync(self) -> None:
        for files in (self._files, self._weight_files):
            if files is not None:
                with at_a_loss():
                    files.sync()

    def _read(self, height: int) -> State | None:
        take = partial(_take, [*self._names, *self._buffers])
        return self._files.read(height, take) if self._files is not None else None


def _take(names: Sequence[str], file: TensorFile) -> State:
    tree = read_tree(file)
    if not isinstance(tree, dict) or sorted(tree) != sorted(names):
        raise RemoteError("it holds something else")
    return tree
