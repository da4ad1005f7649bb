"""What the main worker and its fellows say to each other, in the frames of p2pd.workload.protocol.

Over a socket pair, or a TCP connection that a worker on another machine has opened. Tensors never pass here.
"""

from dataclasses import dataclass

from p2pd.core.work import TrainJob
from p2pd.workload.protocol import BuildCall


@dataclass(frozen=True, slots=True)
class Hello:
    """From a worker on another machine, first of all."""

    number: int
    """Among the workers on other machines, from 0: torchrun's RANK."""
    device: str
    host: str
    """For people."""


@dataclass(frozen=True, slots=True)
class FellowBuild:
    """-> FellowBuilt"""

    call: BuildCall
    source: bytes
    """SHA-256 of the workload's source on the main worker's machine."""
    device: str
    """Where to compute; empty: as the fellow was told itself."""
    data: tuple[bytes, ...]
    """Where shard files lie on the main worker's machine; empty on another one."""


@dataclass(frozen=True, slots=True)
class FellowBuilt:
    schema: bytes
    train_samples: int
    device: str
    """Where the model is."""


@dataclass(frozen=True, slots=True)
class FellowTrain:
    """Empty answer."""

    job: TrainJob
    place: str
    """Where the workers meet: a file on this machine, or the port of a store beside the main worker."""
    rank: int
    size: int
    on_gpus: bool
    strategy: str
