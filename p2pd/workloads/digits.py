"""Reference workload: real handwritten digits, 8x8 pixels, that come with scikit-learn.

1437 images train, 360 validate; the split never changes. Config keys, all optional: lr, batch,
hidden, seed, data, sources. Source: UCI ML hand-written digits, in scikit-learn's datasets/data/digits.csv.gz.
"""

import gzip
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Subset, TensorDataset

from p2pd import Learner, Sharded, Workload, from_loaders
from p2pd.errors import WorkloadError
from p2pd.workloads.settings import LEAST, parse

PIXELS = 64
GREY_MAX = 16
CLASSES = 10
VALIDATION_SAMPLES = 360
SPLIT_SEED = 0
WARM_UP_STEPS = 10
HALF_LIFE_STEPS = 200
"""The learning rate halves in so many steps: heads that are averaged jump about otherwise."""


Digits = Subset[tuple[torch.Tensor, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsConfig:
    lr: float = 0.1
    """Peak learning rate; positive."""
    batch: int = field(default=8, metadata={LEAST: 1})
    """Samples per step; positive. Small: a lease of a few hundred samples has many steps."""
    hidden: int = field(default=256, metadata={LEAST: 1})
    """Width of the hidden layer; positive."""
    seed: int = 0
    """Of the initial weights."""
    data: str = ""
    """Id of these digits in shard files, as p2pd data shard prints it: they are then fetched by lease, and scikit-learn
    is not needed."""
    sources: str = ""
    """URLs where nodes find the files that no peer gives; read by the nodes, not by this workload."""


def build(config: Mapping[str, object]) -> Workload:
    settings = parse(DigitsConfig, "digits", config)
    model = nn.Sequential(
        nn.Linear(PIXELS, settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, CLASSES)
    )
    optimizer = SGD(model.parameters(), lr=settings.lr, momentum=0.9)
    scheduler = LambdaLR(optimizer, rate)
    train, valid = sharded(settings.data) if settings.data else data()
    return from_loaders(
        Learner(model, optimizer, scheduler, loss=functional.cross_entropy),
        DataLoader(train, batch_size=settings.batch, shuffle=True),
        DataLoader(valid, batch_size=VALIDATION_SAMPLES),
        metric="accuracy",
        higher_is_better=True,
    )


def rate(step: int) -> float:
    """Factor of the learning rate: up in a few steps, then halved again and again."""
    warm_up = min(1.0, (step + 1) / WARM_UP_STEPS)
    return float(warm_up * 0.5 ** (step / HALF_LIFE_STEPS))


def training() -> Digits:
    """The training set, for `p2pd data shard`."""
    return data()[0]


def validation() -> Digits:
    return data()[1]


def sharded(name: str) -> tuple[Sharded, Sharded]:
    return Sharded(name, "train"), Sharded(name, "valid")


def data() -> tuple[Digits, Digits]:
    """Training and validation set: pairs of pixels from 0 to 1 and the digit."""
    with gzip.open(_file()) as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
    pixels = torch.from_numpy(table[:, :PIXELS] / GREY_MAX)
    digits = torch.from_numpy(table[:, PIXELS].astype(np.int64))
    everything = TensorDataset(pixels, digits)
    order = list(range(len(everything)))
    random.Random(SPLIT_SEED).shuffle(order)
    return (
        Subset(everything, order[:-VALIDATION_SAMPLES]),
        Subset(everything, order[-VALIDATION_SAMPLES:]),
    )


def _file() -> Path:
    """Located without importing scikit-learn, which takes a second."""
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise WorkloadError(
            "the digits come with scikit-learn, which is not installed:"
            ' pip install "p2pd-fleet[torch,demo]"'
        )
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
