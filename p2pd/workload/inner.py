"""A trainer's inner state: what its workload keeps from one lease to the next, on disk as well.

That is what `inner_state` gives (optimizers, as a rule) and the state of the random generators. A lease of
height h starts from what the newest lease below h left, whatever happened since: a worker that died, a step
that failed, a lease that was called off. Units: heights of plans.
"""

import copy
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from p2pd.errors import WorkloadError
from p2pd.tensors.files import TensorFile
from p2pd.workload.contract import Workload
from p2pd.workload.generations import Generations, at_a_loss, say
from p2pd.workload.trees import Tree, read_tree, write_tree

KIND = "inner"
KEPT = 2
"""What the last lease left, and what it started from."""
BUILT = 0
"""In place of a height: as the workload was built."""


class InnerState:
    def __init__(self, workload: Workload, directory: Path, *, anew: bool = False) -> None:
        """directory: the trainer's own. anew: what lies there is not used; it was tried and failed."""
        self._workload = workload
        self._files = Generations(directory, KIND)
        self._usable = not anew
        self._saves = True
        self._live: int | None = BUILT
        """Of which lease the workload holds what it left; None where it is in the midst of one."""
        self._built = copy.deepcopy(_captured(workload))

    def enter(self, height: int) -> bool:
        """Before a lease: brings back what the newest one below left. False: there is none, or it is lost."""
        earlier = self._files.below(height) if self._usable else []
        if self._live is None or not max(earlier, default=BUILT) <= self._live < height:
            self._live = self._restored(earlier)
        found, self._live = self._live, None
        return found != BUILT

    def leave(self, height: int) -> None:
        """After a lease. What was left is on disk when it returns, and on stable storage after sync."""
        self._live, self._usable = height, True
        if not self._saves:
            return
        try:
            with at_a_loss():
                tree = _captured(self._workload)
                self._files.keep(height, partial(write_tree, tree=tree), KEPT)
        except WorkloadError as error:
            self._saves = False
            say(f"a restart will lack the inner state: inner_state() has {error}")

    def sync(self) -> None:
        with at_a_loss():
            self._files.sync()

    def _restored(self, earlier: list[int]) -> int:
        """The newest that can be used; else as the workload was built."""
        for height in earlier:
            if self._files.read(height, self._take):
                return height
        self._put_back(self._built)
        return BUILT

    def _take(self, file: TensorFile) -> bool:
        self._put_back(read_tree(file))
        return True

    def _put_back(self, tree: Tree) -> None:
        """Raises WorkloadError: it is not this workload's."""
        if not isinstance(tree, dict) or tree.keys() != {"workload", "chance"}:
            raise WorkloadError("it holds something else")
        try:
            self._workload.load_inner_state(tree["workload"])
            _set_chance(tree["chance"])
        except Exception as error:
            raise WorkloadError(f"load_inner_state() does not take it: {error}") from error


def _captured(workload: Workload) -> dict[str, Tree]:
    return {"workload": workload.inner_state(), "chance": _chance()}


def _chance() -> dict[str, Tree]:
    name, keys, place, has_gauss, gauss = np.random.get_state(legacy=True)
    on_gpus: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # so it is in torch
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if on_gpus else [],
        "python": random.getstate(),
        "numpy": (name, np.asarray(keys).tobytes(), place, has_gauss, gauss),
    }


def _set_chance(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
    random.setstate(state["python"])
    name, keys, place, has_gauss, gauss = state["numpy"]
    np.random.set_state((name, np.frombuffer(keys, np.uint32), place, has_gauss, gauss))
