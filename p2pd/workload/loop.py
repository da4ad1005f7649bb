"""One lease through a learner: batches in, optimizer steps out.

An optimizer step takes `accumulate` batches. The loss of each is weighted by its share of their samples,
so that the gradient is the mean over all samples of the step, however these are split into batches, and
each batch between the workers of several devices: then each worker goes through its parts of the batches.
Units: samples, optimizer steps.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice

import torch
from torch import nn
from torch.optim import Optimizer

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch
from p2pd.workload.contract import Lease, Trained
from p2pd.workload.devices.ranks import Ranks, Replica
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
        self._learner.model.train()
        self._precision.begin()
        for schedule in self._schedules:
            schedule.seek(lease.steps)
        callbacks = self._learner.callbacks if lease.ranks.rank == 0 else ()
        for callback in callbacks:
            callback.lease_started(lease)
        total, samples, steps = 0.0, 0, 0
        with self._replicas(lease.ranks) as replicas:
            for group in _groups(batches, self._learner.accumulate):
                self._hyperparameters.set(lease.steps + steps)
                loss = self._step(group, lease, replicas, steps)
                for schedule in self._schedules:
                    schedule.step()
                for callback in callbacks:
                    callback.step_done(lease.steps + steps, loss)
                count = sum(batch.whole for batch in group)
                total, samples, steps = total + loss * count, samples + count, steps + 1
                if self._stops(lease.ranks):
                    break
        trained = Trained(samples, steps, total / samples if samples else 0.0)
        for callback in callbacks:
            callback.lease_ended(trained)
        return trained

    @contextmanager
    def _replicas(self, ranks: Ranks) -> Iterator[Sequence[Replica]]:
        """One for each turn: what its optimizers train."""
        with ExitStack() as stack:
            attached = (
                ranks.strategy.attach([one for each in turn for one in _parameters(each)], ranks)
                for turn in self._turns
            )
            yield [stack.enter_context(one) for one in attached]

    def _stops(self, ranks: Ranks) -> bool:
        """What the callbacks of the main worker say, on all workers."""
        callbacks = self._learner.callbacks
        if not callbacks:
            return False
        says = ranks.rank == 0 and any(callback.stops() for callback in callbacks)
        return ranks.told([float(says)]) != [0.0]

    def _step(
        self, group: Sequence[Batch], lease: Lease, replicas: Sequence[Replica], done: int
    ) -> float:
        """One step of every optimizer; the mean loss over the samples, those of other workers too."""
        whole = sum(batch.whole for batch in group)
        mine = [batch for batch in group if batch.samples]
        losses = [self._forward.losses(batch) for batch in mine]
        value = 0.0
        lease.ranks.share(self._learner.model.buffers())
        for turn, replica in zip(self._turns, replicas, strict=True):
            for optimizer in turn:
                optimizer.zero_grad()
            for batch, ahead in zip(mine, losses, strict=True):
                lease.pause()
                if batch is mine[-1]:
                    replica.last_backward()
                value += self._backward(ahead, batch.samples, whole, done)
            replica.reduce()
            for optimizer in turn:
                self._prepare(optimizer)
            replica.step(partial(self._advance, turn))
        self._precision.scaler.update()
        with self._forward.computing():
            if any(next(ahead, None) is not None for ahead in losses):
                raise WorkloadError("step yields too many losses: yield one for each optimizer")
        value, counted = lease.ranks.sums([value, whole])
        if counted != whole * lease.ranks.size:
            raise WorkloadError(
                "the loader gives other batches in each worker: have it follow from the lease alone"
            )
        return value

    def _backward(
        self, ahead: Iterator[torch.Tensor], samples: int, whole: int, done: int
    ) -> float:
        """Adds a batch's part to the gradients; its part of the mean loss."""
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
        weight = self._learner.weight(samples, whole)
        self._precision.backward(loss if weight == 1 else loss * weight)
        return value * self._learner.part(samples, whole)

    def _prepare(self, optimizer: Optimizer) -> None:
        """The gradients are complete: clips them."""
        learner = self._learner
        self._precision.unscale(optimizer)
        parameters = _parameters(optimizer)
        if learner.clip_value is not None:
            nn.utils.clip_grad_value_(parameters, learner.clip_value)
        if learner.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, learner.clip_norm)

    def _advance(self, turn: Sequence[Optimizer]) -> None:
        for optimizer in turn:
            self._precision.step(optimizer)


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _groups(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """The batches of one optimizer step after the other; the last may be fewer."""
    ahead = iter(batches)
    while group := list(islice(ahead, size)):
        yield group
