"""A batch through the model: on its device, in its precision, compiled where that is wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch, placed
from p2pd.workload.learner import Learner, Step
from p2pd.workload.precision import Precision


class Forward:
    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.model = learner.model
        first = next(learner.model.parameters(), None)
        self.device = torch.device("cpu") if first is None else first.device
        self.precision = Precision(learner.precision, self.device)
        self._compiling: type[Exception] | None = None
        if learner.compile:
            from torch._dynamo.exc import TorchDynamoException  # noqa: PLC0415 - takes seconds

            self.model = torch.compile(learner.model)  # type: ignore[assignment]  # it wraps a module
            self._compiling = TorchDynamoException

    @contextmanager
    def computing(self) -> Iterator[None]:
        """What the user's code computes in here, it computes in the wanted precision."""
        try:
            with self.precision.forward():
                yield
        except RuntimeError as error:
            if self._compiling is None or not isinstance(error, self._compiling):
                raise
            raise WorkloadError(
                f"torch.compile failed here: {str(error).strip().splitlines()[0]}:"
                " leave out compile=True, or install a C++ compiler where that is missing"
            ) from error

    def losses(self, batch: Batch) -> Iterator[torch.Tensor]:
        """Of training, one after the other, none before it is asked for."""
        learner = self._learner
        if learner.step is None:
            outputs, targets = self.pair(batch)
            yield learner.loss(outputs, targets)
        elif learner.alternates:
            yield from learner.step(self.model, self.content(batch))
        else:
            yield self._one(learner.step, batch)

    def valid_loss(self, batch: Batch) -> torch.Tensor:
        """Of a batch as a whole, where evaluation measures by the user's own step."""
        step = self._learner.valid_step or self._learner.step
        assert step is not None  # whoever has pairs asks for them
        return self._one(step, batch)

    def pair(self, batch: Batch) -> tuple[Any, Any]:
        """The model's outputs, and the targets."""
        content = self.content(batch)
        if not isinstance(content, tuple | list) or len(content) != 2:
            raise WorkloadError(
                f"a batch is {type(batch.content).__name__}, not a pair (inputs, targets):"
                " change the dataset or collate_fn, or give a step of your own to the Learner"
            )
        inputs, targets = content
        return self.model(inputs), targets

    def content(self, batch: Batch) -> Any:  # noqa: ANN401 - whatever the loader gives
        return placed(batch.content, self.device)

    def _one(self, step: Step, batch: Batch) -> torch.Tensor:
        loss = step(self.model, self.content(batch))
        if not isinstance(loss, torch.Tensor):
            raise WorkloadError(
                f"step returned {type(loss).__name__}: return the loss of the batch, a tensor, or"
                " yield one for each optimizer"
            )
        return loss
