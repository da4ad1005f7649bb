"""Which devices a trainer computes on, and how they work together."""

import torch

from p2pd.errors import WorkloadError
from p2pd.workload.devices.ranks import Strategy
from p2pd.workload.devices.strategies import STRATEGIES
from p2pd.workload.protocol import AUTO, Devices

BUILT = ""
"""Where the workload has put its model itself."""


def places_of(wanted: Devices) -> tuple[str, ...]:
    """One device for each worker on this machine, the main one's first.

    Raises:
        WorkloadError: there is no such device; the message says which there are.
    """
    if wanted.workers:
        return ("cpu",) * wanted.workers
    if wanted.names == (AUTO,):
        return tuple(f"cuda:{number}" for number in range(torch.cuda.device_count())) or (BUILT,)
    for name in wanted.names:
        _require_device(name)
    gpus = [name for name in wanted.names if on_gpu(name)]
    if gpus and len(gpus) < len(wanted.names):
        raise WorkloadError(
            f"trainer.devices {', '.join(wanted.names)} are not of one kind: name GPUs or CPUs"
        )
    if len(set(gpus)) < len(gpus):
        raise WorkloadError(f"trainer.devices names a GPU twice: {', '.join(wanted.names)}")
    return wanted.names or (BUILT,)


def on_gpu(place: str) -> bool:
    return place.startswith("cuda")


def gpu_of(number: int) -> str:
    """Of that worker of a machine, as torchrun numbers them; without GPUs, where the workload puts itself."""
    return f"cuda:{number}" if number < torch.cuda.device_count() else BUILT


def use(place: str) -> None:
    """Before anything is built: what says no more than cuda means this device."""
    if on_gpu(place):
        torch.cuda.set_device(place)


def require_strategy(name: str, workers: int) -> None:
    """
    Raises:
        WorkloadError: there is no such strategy, or not for so many workers.
    """
    if name not in (AUTO, *STRATEGIES):
        known = ", ".join((AUTO, *STRATEGIES))
        raise WorkloadError(f"trainer.strategy {name!r} is none of {known}")
    if name == "single" and workers > 1:
        raise WorkloadError(
            f"trainer.strategy single is for one device, and trainer.devices has {workers}: say ddp"
        )


def strategy_of(name: str, own: Strategy | None) -> Strategy:
    """The one that the node names; else the workload's own, else ddp."""
    if name == AUTO:
        return own or STRATEGIES["ddp"]
    return STRATEGIES[name]


def _require_device(name: str) -> None:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise WorkloadError(
            f"trainer.devices has {name!r}, which torch does not know: cpu, cuda:0, cuda:1, ..."
        ) from None
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise WorkloadError(
            f"trainer.devices has {name!r}, and torch sees {count} GPUs here: look at nvidia-smi, and at"
            " whether torch was installed for the CPU only"
        )
