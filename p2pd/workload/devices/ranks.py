"""What a workload sees of the workers that train one lease together. Units: samples.

Source: torch.distributed, whose words rank and size (of the world) are.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
    from torch import nn


class Ranks(Protocol):
    """All workers make the same calls in the same order: each waits for the others."""

    @property
    def rank(self) -> int:
        """0 is the main worker."""
        ...

    @property
    def size(self) -> int: ...

    @property
    def strategy(self) -> "Strategy":
        """How the replicas of the model become one, as the node's configuration says."""
        ...

    def part(self, count: int) -> range:
        """Which of so many samples of a batch are this worker's; none, it may be."""
        ...

    def sums(self, values: Sequence[float]) -> list[float]:
        """Each value summed over all workers; the same on every one of them.

        To be called after each step: where several train, this is where they stop.

        Raises:
            Cancelled: on all workers at once, if nobody wants the result any more.
        """
        ...

    def told(self, values: Sequence[float]) -> list[float]:
        """What the main worker says, on all of them."""
        ...

    def share(self, tensors: "Iterable[torch.Tensor]") -> None:
        """Copies the main worker's tensors into those of all others."""
        ...

    def add(self, tensor: "torch.Tensor") -> Callable[[], object]:
        """Begins to sum a tensor over all workers, in place; calling what is returned waits for it."""
        ...


class Replica(Protocol):
    """Some parameters of one worker's model during one lease: those that step together."""

    def last_backward(self) -> None:
        """Before the last backward pass of a step: from now on gradients may be sent as they come."""
        ...

    def reduce(self) -> None:
        """After it: the gradients are those of the batch. Each worker's came weighed, to add up to them."""
        ...

    def step(self, optimize: Callable[[], None]) -> None:
        """Calls optimize where the optimizer is; afterwards the parameters are the same everywhere."""
        ...


class Strategy(Protocol):
    """How replicas of a model become one. Yours too, as Learner(strategy=...): see docs/devices.md."""

    def attach(
        self, parameters: "Sequence[nn.Parameter]", ranks: Ranks
    ) -> AbstractContextManager[Replica]:
        """For one lease, during which the group of workers stands."""
        ...


def parts(count: int, ranks: int) -> list[range]:
    """The samples of a batch over the workers, in their order: sizes differ by one at most.

    Nobody gets a single sample but of a batch of one: BatchNorm refuses those where it would take the
    batch. Who gets none sits the step out; the main worker always has some.
    """
    used = max(1, min(ranks, count // 2))
    each, more = divmod(count, used)
    ends = [rank * each + min(rank, more) for rank in range(used + 1)]
    found = [range(start, end) for start, end in pairwise(ends)]
    return found + [range(count, count)] * (ranks - used)
