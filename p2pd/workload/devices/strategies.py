"""How replicas of a model on several devices become one training.

`ddp`: gradients are summed over all workers and each takes the same step. `multi`: only the main worker's
optimizer takes it, and its parameters go to the others: one optimizer state instead of one for each
device, for a second transfer. `single`: one device.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import nn

from p2pd.workload.devices.gradients import GradientSums
from p2pd.workload.devices.ranks import Ranks, Replica, Strategy
from p2pd.workload.devices.solo import Single


class _Summed:
    """Implements Replica for ddp."""

    def __init__(self, parameters: Sequence[nn.Parameter], ranks: Ranks) -> None:
        self._sums = GradientSums(parameters, ranks)

    def last_backward(self) -> None:
        self._sums.arm()

    def reduce(self) -> None:
        self._sums.finish()

    def step(self, optimize: Callable[[], None]) -> None:
        optimize()

    def close(self) -> None:
        self._sums.close()


class _OnMain(_Summed):
    """Implements Replica for multi."""

    def __init__(self, parameters: Sequence[nn.Parameter], ranks: Ranks) -> None:
        super().__init__(parameters, ranks)
        self._parameters, self._ranks = parameters, ranks

    def step(self, optimize: Callable[[], None]) -> None:
        if self._ranks.rank == 0:
            optimize()
        self._ranks.share(self._parameters)


class Summed:
    """Implements Strategy."""

    def __init__(self, replica: type[_Summed]) -> None:
        self._replica = replica

    @contextmanager
    def attach(self, parameters: Sequence[nn.Parameter], ranks: Ranks) -> Iterator[Replica]:
        replica = self._replica(parameters, ranks)
        try:
            yield replica
        finally:
            replica.close()


STRATEGIES: Mapping[str, Strategy] = {
    "single": Single(),
    "ddp": Summed(_Summed),
    "multi": Summed(_OnMain),
}
