"""Prints how well heads get by outer learning rate and momentum: which settings are stable.

`python scripts/outer_range.py MODULE CONFIG SAMPLES STEPS HEADS [LR:MOMENTUM ...]`: four trainers, STEPS steps of
SAMPLES samples a window, HEADS windows, for each rule; the loss of the last head, and of the worst after the first
quarter, where one that swings shows. The arithmetic is the outer optimizer's own; updates travel as they are.
"""

import json
import random
import sys
from collections.abc import Mapping

import numpy as np
import torch

from p2pd.core.codecs import is_trained
from p2pd.core.work import MILLION, OuterRule
from p2pd.tensors.outer import Momentum, optimizer_of
from p2pd.workload.contract import Lease, Workload
from p2pd.workload.session import build_workload

TRAINERS = 4
RATES = (0.3, 0.5, 0.7, 1.0, 1.3, 1.6)
MOMENTA = (0.0, 0.5, 0.8, 0.9, 0.95)

State = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]


def never() -> None:
    """Nobody calls it off."""


class Fleet:
    def __init__(self, module: str, config: Mapping[str, object], samples: int, steps: int) -> None:
        self._trainers = [build_workload(module, dict(config)) for _ in range(TRAINERS)]
        self._judge = build_workload(module, dict(config))
        self._trained = [one.name for one in self._judge.schema().tensors if is_trained(one)]
        self._lease = samples * steps
        self._steps = steps

    def run(self, outer: Momentum | None, heads: int) -> list[float]:
        """The loss of each head."""
        dice = random.Random(0)
        head = _numbers(self._judge)
        velocity: State = {name: np.zeros_like(head[name]) for name in self._trained}
        losses = []
        for window in range(heads):
            order = dice.sample(range(self._trainers[0].train_samples), TRAINERS * self._lease)
            ends = [
                self._end(trainer, head, order[number::TRAINERS], window)
                for number, trainer in enumerate(self._trainers)
            ]
            mean = {name: np.asarray(sum(end[name] for end in ends)) / TRAINERS for name in head}
            if outer is not None:
                for name in self._trained:
                    step = outer.step(head[name], mean[name] - head[name], velocity[name], "F32")
                    mean[name], velocity[name] = step.head, step.velocity
            head = mean
            _load(self._judge, head)
            losses.append(self._judge.evaluate(never).loss)
        return losses

    def _end(self, trainer: Workload, head: State, samples: list[int], window: int) -> State:
        _load(trainer, head)
        trainer.train(Lease(samples, window * self._steps, window, never))
        return _numbers(trainer)


def _numbers(workload: Workload) -> State:
    return {name: tensor.detach().double().numpy() for name, tensor in workload.state().items()}


def _load(workload: Workload, state: State) -> None:
    now = workload.state()
    workload.load({name: torch.from_numpy(state[name]).to(now[name].dtype) for name in now})


def main() -> None:
    module, config, samples, steps, heads = sys.argv[1:6]
    torch.set_num_threads(1)
    rules = [(lr, momentum) for momentum in MOMENTA for lr in RATES]
    if named := sys.argv[6:]:
        rules = [(float(lr), float(momentum)) for lr, momentum in (one.split(":") for one in named)]
    for lr, momentum in rules:
        name = "nesterov" if momentum else "sgd"
        rule = OuterRule(name, round(lr * MILLION), round(momentum * MILLION))
        fleet = Fleet(module, json.loads(config), int(samples), int(steps))
        losses = fleet.run(optimizer_of(rule), int(heads))
        worst = max(losses[len(losses) // 4 :])
        print(f"momentum {momentum:4} lr {lr:3}: last {losses[-1]:8.4f}, worst {worst:8.4f}")


if __name__ == "__main__":
    main()
