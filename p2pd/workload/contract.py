"""What p2pd asks of a workload. from_loaders answers it for an ordinary training set-up.

Units: samples are counted by their place in the training (or validation) set, steps are optimizer
steps, losses and metrics are plain floats.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from p2pd.core.work import Schema
from p2pd.workload.devices.ranks import Ranks, Strategy
from p2pd.workload.devices.solo import ALONE
from p2pd.workload.pipelines import Indexed, Pipeline

if TYPE_CHECKING:
    import torch

Pause = Callable[[], None]
"""To be called between steps: raises Cancelled if nobody wants the result any more."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """The result is no longer wanted, and why: let it pass."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What to train on now, each sample once."""

    samples: Sequence[int]
    """Places in the training set."""
    steps: int
    """Where schedulers stand at the first step: the certified progress of the whole network."""
    seed: int
    """For shuffling, dropout and augmentation; 64 bits."""
    pause: Pause
    ranks: Ranks = ALONE
    """Who trains on it together, one worker process for each device; samples and steps are those of all."""


@dataclass(frozen=True, slots=True)
class Trained:
    samples: int
    """What the update counts for when it is merged: the samples trained on; fewer, if it is worth less, down to
    one a step."""
    steps: int
    loss: float
    """Mean over the samples."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    metric: float
    loss: float
    """Mean over the samples."""
    samples: int
    others: Mapping[str, float] = field(default_factory=dict)
    """Further metrics by name: shown, never decided on."""


class Workload(ABC):
    """A model with all that trains and evaluates it; subclass it where from_loaders does not fit.

    It lives as long as its process, and keeps its optimizer's state over all leases. p2pd calls
    load before train and before evaluate, and state and inner_state after train.
    """

    metric: str
    """Name of what evaluate measures, for people."""
    higher_is_better: bool
    divides: bool = False
    """Whether train divides a lease among lease.ranks; else it trains on one device only."""
    strategy: Strategy | None = None
    """Of its own, for several devices where the node names none."""

    def place(self, device: str) -> None:  # noqa: B027 - most need not
        """Moves the model to a device of torch, as the node's configuration says, before it is used.

        Unless overridden, it stays where build has put it.
        """

    @property
    def pipeline(self) -> Pipeline:
        """Where the training samples come from; unless overridden, a data set of which nothing is said."""
        return Indexed()

    @property
    @abstractmethod
    def train_samples(self) -> int:
        """Size of the training set; the same on every node."""

    @property
    @abstractmethod
    def validation_samples(self) -> int:
        """Size of the validation set; the same on every node."""

    @abstractmethod
    def schema(self) -> Schema:
        """Of all tensors of a head; p2pd.workload.state.schema_of makes it from a module."""

    def aliases(self) -> "Mapping[str, str]":
        """Names by which files of weights may call tensors of the schema besides: those of tied weights."""
        return {}

    @abstractmethod
    def state(self) -> "Mapping[str, torch.Tensor]":
        """The tensors that the schema names; may be the live ones, they are only read."""

    @abstractmethod
    def load(self, state: "Mapping[str, torch.Tensor]") -> None:
        """Copies a head into the model. The tensors are on the CPU and must not be kept."""

    @abstractmethod
    def train(self, lease: Lease) -> Trained:
        """One pass over the samples of the lease, from the state that was loaded.

        Raises:
            WorkloadError: the training cannot be used, for example because the loss is not finite.
        """

    def inner_state(self) -> Mapping[str, Any]:
        """What goes from one lease to the next besides heads: optimizers' state, as a rule; never sent to anyone.

        Mappings, lists, tuples, tensors, numbers, text, bytes, booleans and None. May be the live ones, they are
        only read. The random generators of torch, Python and numpy are saved beside it.
        """
        return {}

    def load_inner_state(self, state: Mapping[str, Any]) -> None:
        """Puts back what inner_state gave after an earlier lease, or when the workload was built. The tensors are
        on the CPU and may be kept."""
        return  # nothing was given either

    @abstractmethod
    def evaluate(self, pause: Pause) -> Evaluated:
        """The metric and the mean loss on the whole validation set; the same bits each time."""

    def probes(self, pause: Pause) -> Mapping[str, float]:
        """Numbers of the head that was loaded, by name, for people: validators report them with its metrics."""
        del pause
        return {}

    @abstractmethod
    def sample_losses(self, samples: Sequence[int], pause: Pause) -> list[float]:
        """The loss of each of these validation samples alone, in their order."""
