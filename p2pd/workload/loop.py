"""One lease through a learner: batches in, optimizer steps out.

An optimizer step takes `accumulate` batches. The loss of each is weighted by its share of their samples,
so that the gradient is the mean over all samples of the step, however these are split into batches.
Units: samples, optimizer steps.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import nn
from torch.optim import Optimizer

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch
from p2pd.workload.contract import Lease, Trained
from p2pd.workload.forward import Forward
from p2pd.workload.hyperparameters import Hyperparameters
from p2pd.workload.learner import Learner
from p2pd.workload.schedule import Schedule


class Loop:
    def __init__(self, learner: Learner, forward: Forward) -> None:
        """Raises WorkloadError: schedulers or hyperparameters cannot serve here."""
        self._learner = learner
        self._forward = forward
        self._precision = forward.precision
        optimizers, schedulers = learner.optimizers, learner.schedulers
        self._schedules = [
            Schedule(optimizer, scheduler, learner.scheduler_every)
            for optimizer, scheduler in zip(optimizers, schedulers, strict=True)
        ]
        self._hyperparameters = Hyperparameters(learner.hyperparameters, optimizers, schedulers)
        self._turns = [(one,) for one in optimizers] if learner.alternates else [optimizers]

    def run(self, lease: Lease, batches: Iterable[Batch]) -> Trained:
        """One pass over the batches, from where the schedules of the whole network stand.

        Raises:
            WorkloadError: a loss is not finite, or not what a loss is.
        """
        learner = self._learner
        learner.model.train()
        for schedule in self._schedules:
            schedule.seek(lease.steps)
        for callback in learner.callbacks:
            callback.lease_started(lease)
        total, samples, steps = 0.0, 0, 0
        for group in _groups(batches, learner.accumulate):
            self._hyperparameters.set(lease.steps + steps)
            loss = self._step(group, lease, steps)
            for schedule in self._schedules:
                schedule.step()
            for callback in learner.callbacks:
                callback.step_done(lease.steps + steps, loss)
            count = sum(batch.samples for batch in group)
            total, samples, steps = total + loss * count, samples + count, steps + 1
        trained = Trained(samples, steps, total / samples if samples else 0.0)
        for callback in learner.callbacks:
            callback.lease_ended(trained)
        return trained

    def _step(self, group: Sequence[Batch], lease: Lease, done: int) -> float:
        """One step of every optimizer; the mean loss over the samples."""
        total = sum(batch.samples for batch in group)
        losses = [self._forward.losses(batch) for batch in group]
        value = 0.0
        for turn in self._turns:
            for optimizer in turn:
                optimizer.zero_grad()
            for batch, ahead in zip(group, losses, strict=True):
                lease.pause()
                value += self._backward(ahead, batch.samples / total, done)
            for optimizer in turn:
                self._advance(optimizer)
        self._precision.scaler.update()
        with self._forward.computing():
            if any(next(ahead, None) is not None for ahead in losses):
                raise WorkloadError("step yields too many losses: yield one for each optimizer")
        return value

    def _backward(self, ahead: Iterator[torch.Tensor], weight: float, done: int) -> float:
        """Adds a batch's part to the gradients; its part of the loss."""
        with self._forward.computing():
            loss = next(ahead, None)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = "nothing" if loss is None else f"{type(loss).__name__} {tuple(loss.shape)}"
            raise WorkloadError(
                f"the loss of a batch is {what}: it must be a tensor of one number,"
                " for each optimizer where step yields them"
            )
        value = loss.item()
        if not math.isfinite(value):
            raise WorkloadError(
                f"the loss is {value} at step {done + 1} of the lease: lower the learning"
                " rate, clip gradients, or look at the data"
            )
        self._precision.backward(loss if weight == 1 else loss * weight)
        return value * weight

    def _advance(self, optimizer: Optimizer) -> None:
        """The gradients are complete: clips them, and steps."""
        learner = self._learner
        self._precision.unscale(optimizer)
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        if learner.clip_value is not None:
            nn.utils.clip_grad_value_(parameters, learner.clip_value)
        if learner.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, learner.clip_norm)
        self._precision.step(optimizer)


def _groups(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """The batches of one optimizer step after the other; the last may be fewer."""
    ahead = iter(batches)
    while group := list(islice(ahead, size)):
        yield group
