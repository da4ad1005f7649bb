"""A workload with BatchNorm, whose every training step takes as long as the node's environment says. Seconds."""

import os
import time
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional
from torch.optim import SGD
from torch.utils.data import DataLoader

from p2pd import Learner, Workload, from_loaders
from p2pd.workloads.digits import CLASSES, VALIDATION_SAMPLES, data
from tests.faults.stated.pace import BATCH, PACE


class Pace(nn.Module):
    def forward(self, given: torch.Tensor) -> torch.Tensor:
        if self.training:
            time.sleep(float(os.environ.get(PACE, "0")))  # noqa: TID251 - what a slow machine does
        return given


def build(config: Mapping[str, object]) -> Workload:
    del config  # there is nothing to choose
    model = nn.Sequential(
        Pace(),
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 64, CLASSES),
    )
    train, valid = data()
    return from_loaders(
        Learner(model, SGD(model.parameters(), lr=0.01), loss=functional.cross_entropy),
        DataLoader(train, batch_size=BATCH, shuffle=True),
        DataLoader(valid, batch_size=VALIDATION_SAMPLES),
        metric="accuracy",
        higher_is_better=True,
    )
