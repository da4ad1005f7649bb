"""Gradients of all workers summed, bucket by bucket, while the backward pass still goes on.

A bucket is a flat tensor: the gradients of some parameters, last ones first since backward ends with the
first, and then one number for each that says whether it has a gradient at all. What has none anywhere
keeps none, so that the optimizer passes it over as it would with one worker. Units: bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch.utils.hooks import RemovableHandle

from p2pd.errors import WorkloadError
from p2pd.workload.devices.ranks import Ranks

BUCKET_BYTES = 25 * 2**20
"""As DistributedDataParallel has it: large enough to keep a link busy, small enough to begin early."""


class GradientSums:
    """Called on all workers alike. Buckets go out in their order, whichever is full first."""

    def __init__(self, parameters: Iterable[torch.Tensor], ranks: Ranks) -> None:
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._ranks = ranks
        self._buckets = [_Bucket(part) for part in _divided(trained[::-1])]
        self._home = {id(one): bucket for bucket in self._buckets for one in bucket.parameters}
        self._waits: list[Callable[[], object]] = []
        self._armed = False
        self._hooks: list[RemovableHandle] = [
            one.register_post_accumulate_grad_hook(self._came)  # type: ignore[no-untyped-call]
            for one in trained
        ]

    def arm(self) -> None:
        """Before the last backward pass of a step."""
        self._waits, self._armed = [], True
        for bucket in self._buckets:
            bucket.missing = {id(one) for one in bucket.parameters}

    def finish(self) -> None:
        """After it: all gradients are the sums.

        Raises:
            WorkloadError: a gradient that cannot be summed.
        """
        if not self._armed:
            self.arm()
        self._armed = False
        while len(self._waits) < len(self._buckets):
            self._send()
        for bucket, wait in zip(self._buckets, self._waits, strict=True):
            wait()
            bucket.unpack()

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _came(self, parameter: torch.Tensor) -> None:
        if not self._armed:
            return
        bucket = self._home[id(parameter)]
        if id(parameter) not in bucket.missing:
            raise WorkloadError(
                "a parameter got a gradient twice in one backward pass of a step: use its module once,"
                " or have the passes before under accumulation"
            )
        bucket.missing.discard(id(parameter))
        while len(self._waits) < len(self._buckets):
            if self._buckets[len(self._waits)].missing:
                return
            self._send()

    def _send(self) -> None:
        bucket = self._buckets[len(self._waits)]
        self._waits.append(self._ranks.add(bucket.packed()))


class _Bucket:
    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = parameters
        self.missing: set[int] = set()
        first = parameters[0]
        size = sum(one.numel() for one in parameters)
        self._flat = torch.zeros(size + len(parameters), dtype=first.dtype, device=first.device)

    def packed(self) -> torch.Tensor:
        there = [float(one.grad is not None) for one in self.parameters]
        self._flat[-len(there) :] = self._flat.new_tensor(there)
        for parameter, view in self._views():
            gradient = parameter.grad
            if gradient is None:
                view.zero_()
            elif gradient.layout is not torch.strided:
                raise WorkloadError(
                    "a gradient is sparse, which several devices cannot sum: build the Embedding with"
                    " sparse=False, or train on one device"
                )
            else:
                view.copy_(gradient)
        return self._flat

    def unpack(self) -> None:
        found = self._flat[-len(self.parameters) :].tolist()
        for there, (parameter, view) in zip(found, self._views(), strict=True):
            if not there:
                continue
            if parameter.grad is None:
                parameter.grad = view.clone()
            else:
                parameter.grad.copy_(view)

    def _views(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        start = 0
        for parameter in self.parameters:
            yield parameter, self._flat[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()


def _divided(parameters: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Neighbours of one type on one device, up to a bucket full."""
    part: list[torch.Tensor] = []
    size_bytes = 0
    for parameter in parameters:
        new_bytes = parameter.numel() * parameter.element_size()
        alike = part and (part[0].dtype, part[0].device) == (parameter.dtype, parameter.device)
        if part and (not alike or size_bytes + new_bytes > BUCKET_BYTES):
            yield part
            part, size_bytes = [], 0
        part.append(parameter)
        size_bytes += new_bytes
    if part:
        yield part
