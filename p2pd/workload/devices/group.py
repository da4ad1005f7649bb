"""The collective of the workers that train one lease: it stands exactly as long as that.

torch.distributed does the work: nccl between GPUs, gloo for everything on a CPU. No port is
fixed: gloo's own are the kernel's choice. Source: torch.distributed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from torch import distributed

from p2pd.workload.contract import Cancelled, Pause
from p2pd.workload.devices.crew import LinkLostError
from p2pd.workload.devices.ranks import Strategy, parts
from p2pd.workload.devices.stores import PATIENCE, Store

LOST = ("gloo", "nccl", "connection closed by peer", "connection reset by peer")


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the workers of one lease find each other."""

    store: Store
    """Theirs alone."""
    rank: int
    size: int
    on_gpus: bool
    """All of them: then they talk over nccl."""


def _is_lost(error: RuntimeError) -> bool:
    """Whether a failure is the end of another worker, as torch.distributed sees it."""
    said = str(error).lower()
    return isinstance(error, distributed.DistError) or any(word in said for word in LOST)


class Group:
    """Implements Ranks."""

    def __init__(self, meeting: Meeting, strategy: Strategy, pause: Pause) -> None:
        self.rank, self.size, self.strategy = meeting.rank, meeting.size, strategy
        self._pause = pause
        self._reason = ""

    def part(self, count: int) -> range:
        return parts(count, self.size)[self.rank]

    def pause(self) -> None:
        """A lease's pause: does nothing, since all stop together, where they meet next."""

    def sums(self, values: Sequence[float]) -> list[float]:
        try:
            self._pause()
        except Cancelled as told:
            self._reason = str(told) or "the lease is no longer wanted"
        return self._met(values)

    def _met(self, values: Sequence[float]) -> list[float]:
        tensor = torch.tensor([*values, float(bool(self._reason))], dtype=torch.float64)
        with _linked():
            distributed.all_reduce(tensor)
        *sums, stop = tensor.tolist()
        if stop:
            raise Cancelled(self._reason or "the main worker was told to stop")
        return sums

    def told(self, values: Sequence[float]) -> list[float]:
        return self._met(values if self.rank == 0 else [0.0] * len(values))

    def share(self, tensors: Iterable[torch.Tensor]) -> None:
        for same in _alike(tensors):
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in same])
            with _linked():
                distributed.broadcast(flat, 0)
            if self.rank:
                _spread(flat, same)

    def add(self, tensor: torch.Tensor) -> Callable[[], object]:
        with _linked():
            work = distributed.all_reduce(tensor, async_op=True)

        def wait() -> None:
            with _linked():
                work.wait()

        return wait


@contextmanager
def met(meeting: Meeting, strategy: Strategy, pause: Pause) -> Iterator[Group]:
    """The group, set up on entry and taken down on every way out.

    Raises:
        LinkLostError: another worker has gone.
    """
    try:
        with _linked():
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if meeting.on_gpus else "gloo",
                store=meeting.store,
                rank=meeting.rank,
                world_size=meeting.size,
                timeout=PATIENCE,
            )
        yield Group(meeting, strategy, pause)
    except RuntimeError as error:  # of a collective in the user's own code, too
        if _is_lost(error):
            raise LinkLostError(str(error)) from error
        raise
    finally:
        if distributed.is_initialized():
            with suppress(RuntimeError):  # of whom has gone
                distributed.destroy_process_group()


@contextmanager
def _linked() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LinkLostError(str(error).splitlines()[0] if str(error) else "no cause") from error


def _alike(tensors: Iterable[torch.Tensor]) -> Iterable[list[torch.Tensor]]:
    """Those that can lie in one flat tensor together, in the order of their first ones."""
    found: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for tensor in tensors:
        found.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return found.values()


def _spread(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    start = 0
    for tensor in tensors:
        tensor.detach().copy_(flat[start : start + tensor.numel()].view(tensor.shape))
        start += tensor.numel()
