"""What a learner is worth on its validation set: the metric, the mean loss, the loss of single samples.

Units: samples of the validation set, by their place.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch
from p2pd.workload.contract import Evaluated, Pause
from p2pd.workload.forward import Forward
from p2pd.workload.learner import Learner
from p2pd.workload.loaders import Samples
from p2pd.workload.metrics import Measures
from p2pd.workload.seeding import seed_all


class Count:
    """What a metric summed up over the batches."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, name: str, part: Any) -> None:  # noqa: ANN401 - whatever the function returned
        try:
            total, count = part
            self._sum, self._count = self._sum + float(total), self._count + int(count)
        except (TypeError, ValueError) as error:
            raise WorkloadError(
                f"metric {name} returned {type(part).__name__}: return (sum, count) of the batch"
            ) from error

    def mean(self, name: str) -> float:
        if self._count == 0:
            raise WorkloadError(
                f"metric {name} counted nothing on the whole validation set: look at its function"
            )
        return self._sum / self._count


class Judge:
    def __init__(
        self, learner: Learner, forward: Forward, valid: Samples, measures: Measures
    ) -> None:
        """Raises WorkloadError: nothing says what the loss of an evaluation is."""
        if learner.alternates and learner.valid_step is None:
            raise WorkloadError(
                "a step that yields has no one loss: give valid_step(model, batch) as well, which"
                " returns what evaluation is to measure"
            )
        self._learner = learner
        self._forward = forward
        self._valid = valid
        self._measures = measures
        self._own = learner.step is not None or learner.valid_step is not None

    def evaluate(self, pause: Pause) -> Evaluated:
        places = range(len(self._valid))
        total, counts = 0.0, {name: Count() for name in self._measures.functions}
        with self._judging():
            for batch in self._valid.load(self._valid.in_order(places), 0):
                pause()
                loss, judged = self._judged(batch)
                total += loss * batch.samples
                for name, function in self._measures.functions.items():
                    counts[name].add(name, function(*judged))
        loss = total / len(places)
        values = {name: count.mean(name) for name, count in counts.items()}
        # The mean loss is decisive where no function is.
        metric = values.pop(self._measures.decisive, loss)
        result = Evaluated(metric, loss, len(places), values)
        for callback in self._learner.callbacks:
            callback.evaluated(result)
        return result

    def sample_losses(self, samples: Sequence[int], pause: Pause) -> list[float]:
        losses: list[float] = []
        with self._judging():
            plan = self._valid.in_order(samples, 1 if self._own else None)
            for batch in self._valid.load(plan, 0):
                pause()
                if self._own:
                    losses.append(self._forward.valid_loss(batch).item())
                else:
                    losses += self._losses(*self._forward.pair(batch), batch.samples)
        return losses

    @contextmanager
    def _judging(self) -> Iterator[None]:
        self._learner.model.eval()
        seed_all(0)
        with torch.no_grad(), self._forward.computing():
            yield

    def _judged(self, batch: Batch) -> tuple[float, tuple[Any, Any]]:
        """The mean loss, and what metrics are of."""
        if self._own:
            loss = self._forward.valid_loss(batch)
            judged: tuple[Any, Any] = self._forward.model, self._forward.content(batch)
        else:
            judged = self._forward.pair(batch)
            loss = self._learner.loss(*judged)
        return loss.item() * self._learner.part(batch.samples, batch.samples), judged

    def _losses(self, outputs: object, targets: object, size: int) -> Iterable[float]:
        """One by one through the user's own loss, which may weigh, mask or smooth."""
        if size == 1:
            return (self._learner.loss(outputs, targets).item(),)
        if not (_has_rows(outputs, size) and _has_rows(targets, size)):
            raise WorkloadError(
                "the loss of single samples needs outputs and targets that are tensors with"
                " one row per sample: give the Learner a step of your own, or batch_size=1"
            )
        return (
            self._learner.loss(outputs[row : row + 1], targets[row : row + 1]).item()
            for row in range(size)
        )


def _has_rows(part: object, size: int) -> TypeGuard[torch.Tensor]:
    return isinstance(part, torch.Tensor) and part.shape[:1] == (size,)
