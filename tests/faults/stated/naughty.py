"""A workload that goes wrong in its seventh step as a file tells it to, once, and then is slow for a while. Seconds."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset

from p2pd import Learner, Workload, from_loaders
from p2pd.workloads.digits import CLASSES, VALIDATION_SAMPLES, data
from tests.faults.stated.ways import BATCH, BROKEN, EVALUATE, SLOW_S, STEP, WAYS_FILE

if os.environ.get(BROKEN):
    import no_such_library  # type: ignore[import-not-found]  # noqa: F401

HELD: list[bytes] = []


class Large(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> torch.Tensor:
        return torch.ones(2**20)


def _raise() -> None:
    raise RuntimeError("größer \udcff \x1b[2J数")


def _loop() -> None:
    while True:
        pass


def _grow() -> None:
    try:
        while True:
            HELD.append(bytes(2**28))  # not touched: it takes no time
    finally:
        HELD.clear()


def _print() -> None:
    for _ in range(40):
        os.write(1, bytes(range(256)) * 2**11)


def _leave() -> None:
    torch.set_default_dtype(torch.float64)
    Path(os.environ[WAYS_FILE]).with_name("own.txt").write_text("mine")


def _share() -> None:
    for _ in DataLoader(Large(), num_workers=1):
        pass


def _fill() -> None:
    with Path("/dev/full").open("w") as file:
        file.write("x")


def _hang() -> None:
    for _ in DataLoader(Hanging()):
        pass


class Hanging(Large):
    def __getitem__(self, place: int) -> torch.Tensor:
        time.sleep(1000)  # noqa: TID251 - what hangs
        return torch.zeros(1)


WAYS: dict[str, Callable[[], object]] = {
    "raise": _raise,
    "exit": lambda: sys.exit(4),
    "end": lambda: os._exit(7),
    "loop": _loop,
    "grow": _grow,
    "print": _print,
    "fork": os.fork,
    "leave": _leave,
    "share": _share,
    "fill": _fill,
    "hang": _hang,
    "crash": lambda: ctypes.string_at(0),
    "close": lambda: os.closerange(3, 100),
    "nan": lambda: None,
}


class Naughty(nn.Module):
    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.steps = 0
        self.slow = False

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        place = os.environ.get(WAYS_FILE if self.training else EVALUATE)
        if place is None:
            return given
        self.steps += 1
        if Path(place).read_text() == "slow":
            Path(place).write_text("")
            time.sleep(SLOW_S)  # noqa: TID251 - what a slow machine does
        way = Path(place).read_text()
        if way and (self.steps % STEP == 0 or not self.training):
            Path(place).write_text("slow")
            WAYS[way]()
            if way == "nan":
                return given * float("nan")
        return given


def build(config: Mapping[str, object]) -> Workload:
    del config  # there is nothing to choose
    model = nn.Sequential(Naughty(), nn.Linear(64, CLASSES))
    train, valid = data()
    return from_loaders(
        Learner(model, SGD(model.parameters(), lr=0.01), loss=functional.cross_entropy),
        DataLoader(train, batch_size=BATCH, shuffle=True),
        DataLoader(valid, batch_size=VALIDATION_SAMPLES),
        metric="accuracy",
        higher_is_better=True,
    )
