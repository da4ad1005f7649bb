"""One worker on one device, in the words of several: there is nobody to wait for. Imports no torch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from p2pd.workload.devices.ranks import Ranks, Replica, Strategy

if TYPE_CHECKING:
    import torch
    from torch import nn


class _Whole:
    """Implements Replica."""

    def last_backward(self) -> None:
        pass

    def reduce(self) -> None:
        pass

    def step(self, optimize: Callable[[], None]) -> None:
        optimize()


class Single:
    """Implements Strategy."""

    @contextmanager
    def attach(
        self,
        parameters: "Sequence[nn.Parameter]",
        ranks: Ranks,
    ) -> Iterator[Replica]:
        del parameters, ranks
        yield _Whole()


class Solo:
    """Implements Ranks."""

    rank, size = 0, 1

    @property
    def strategy(self) -> Strategy:
        return Single()

    def part(self, count: int) -> range:
        return range(count)

    def sums(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def told(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def share(self, tensors: "Iterable[torch.Tensor]") -> None:
        pass

    def add(self, tensor: "torch.Tensor") -> Callable[[], object]:
        del tensor
        return lambda: None


ALONE = Solo()
