"""Two workers that are in the same place: what one says, the other has said too."""

from collections.abc import Callable, Iterable, Sequence

import torch

from p2pd.workload.devices.ranks import Strategy, parts
from p2pd.workload.devices.solo import Single


class Twins:
    """Implements Ranks."""

    size = 2

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self.sent: list[int] = []
        """Elements of each tensor, in the order in which they were sent."""

    @property
    def strategy(self) -> Strategy:
        return Single()

    def part(self, count: int) -> range:
        return parts(count, 2)[self.rank]

    def sums(self, values: Sequence[float]) -> list[float]:
        return [2 * value for value in values]

    def told(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def share(self, tensors: Iterable[torch.Tensor]) -> None:
        pass

    def add(self, tensor: torch.Tensor) -> Callable[[], object]:
        self.sent.append(tensor.numel())
        return lambda: tensor.mul_(2)
