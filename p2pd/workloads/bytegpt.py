"""Reference workload: a small byte-level transformer on the sources of Python's own standard library.

Every machine with the same Python has this text; the data's descriptor names the version and a hash, so
that one with another text notices. Sample n is a window at a place that follows from n and the seed
(pipeline `generated`). One file in ten validates. Config keys, all optional: lr, batch, width, heads,
layers, context, samples, seed. Shapes: B batch, T context, D width, V byte values.
"""

import platform
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

from p2pd import Generated, Learner, Workload, from_loaders
from p2pd.errors import WorkloadError
from p2pd.workloads.settings import LEAST, parse

V = 256
VALIDATION_FILES = 10
"""Every so manieth file, by the hash of its name, is kept for validation."""
VALIDATION_WINDOWS = 128
SPLIT_OFF = frozenset(
    {"distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtledemo"}
)
"""Modules that distributions of Python package apart, or generate: not every machine has them."""
TESTS = frozenset({"test", "tests", "idle_test"})
WARM_UP_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteGptConfig:
    lr: float = 0.003
    """Peak learning rate; positive."""
    batch: int = field(default=16, metadata={LEAST: 1})
    """Windows per step."""
    width: int = field(default=64, metadata={LEAST: 1})
    """Of the residual stream; a multiple of heads."""
    heads: int = field(default=4, metadata={LEAST: 1})
    layers: int = field(default=2, metadata={LEAST: 1})
    context: int = field(default=64, metadata={LEAST: 1})
    """Bytes that a window holds."""
    samples: int = field(default=65536, metadata={LEAST: 1})
    """Windows in an epoch of the stream."""
    seed: int = 0
    """Of the initial weights, and of the windows."""


@dataclass(frozen=True, slots=True)
class Corpus:
    train: torch.Tensor
    """Bytes, one axis."""
    valid: torch.Tensor
    root: Path
    descriptor: str


def build(config: Mapping[str, object]) -> Workload:
    settings = parse(ByteGptConfig, "bytegpt", config)
    if settings.width % settings.heads:
        raise WorkloadError(
            f"width must be a multiple of heads, got {settings.width} and {settings.heads}"
        )
    corpus = read_corpus(Path(sysconfig.get_path("stdlib")))
    model = ByteGpt(settings)
    optimizer = AdamW(model.parameters(), lr=settings.lr, weight_decay=0.01)
    return from_loaders(
        Learner(model, optimizer, LambdaLR(optimizer, rate), loss=loss),
        DataLoader(windows(corpus, settings), batch_size=settings.batch, shuffle=True),
        DataLoader(validation(corpus, settings.context), batch_size=32),
        metric=bits_per_byte,
        higher_is_better=False,
    )


def rate(step: int) -> float:
    """Factor of the learning rate: up in a few steps, then down with the root of the steps."""
    return float(min((step + 1) / WARM_UP_STEPS, (WARM_UP_STEPS / (step + 1)) ** 0.5))


def read_corpus(root: Path) -> Corpus:
    """The library's text, file after file by name.

    Raises:
        WorkloadError: its sources are not there.
    """
    files = library_files(root)
    if not files:
        raise WorkloadError(
            f"bytegpt: no sources of the standard library in {root}: install Python with them"
        )
    parts: dict[bool, list[bytes]] = {True: [], False: []}
    whole = sha256()
    for path in files:
        name, content = path.relative_to(root).as_posix(), path.read_bytes()
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
        parts[sha256(name.encode()).digest()[0] % VALIDATION_FILES == 0].append(content)
    train, valid = (b"".join(parts[kept]) for kept in (False, True))
    descriptor = (
        f"standard library of Python {platform.python_version()}, {len(files)} files, "
        f"{len(train) + len(valid)} bytes, sha256 {whole.hexdigest()}"
    )
    return Corpus(_bytes(train), _bytes(valid), root, descriptor)


def library_files(root: Path) -> Sequence[Path]:
    found: list[Path] = []
    for name in sorted(sys.stdlib_module_names - SPLIT_OFF):
        found += [path for path in (root / f"{name}.py",) if path.is_file()]
        package = sorted((root / name).rglob("*.py"), key=lambda path: path.as_posix())
        found += [path for path in package if TESTS.isdisjoint(path.relative_to(root).parts)]
    return found


def _bytes(text: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(text or b"\n"), dtype=torch.uint8)


def windows(corpus: Corpus, settings: ByteGptConfig) -> Generated:
    """An endless choice of windows: inputs (T,) and the bytes that follow each (T,)."""
    length = settings.context + 1
    text = corpus.train
    if len(text) < length:
        raise WorkloadError(f"context must be below the {len(text)} bytes of the text")

    def make(chance: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        start = int(torch.randint(len(text) - length + 1, (), generator=chance))
        window = text[start : start + length].long()
        return window[:-1], window[1:]

    return Generated(
        settings.samples,
        make,
        seed=settings.seed,
        descriptor=corpus.descriptor,
        root=corpus.root,
    )


def validation(corpus: Corpus, context: int) -> TensorDataset:
    """Windows spread evenly over the files that nobody trains on."""
    count = min(VALIDATION_WINDOWS, (len(corpus.valid) - 1) // context)
    if count < 1:
        raise WorkloadError(f"context must be below the {len(corpus.valid)} bytes that validate")
    stride = (len(corpus.valid) - context - 1) // max(1, count - 1)
    starts = [number * stride for number in range(count)]
    rows = torch.stack([corpus.valid[start : start + context + 1] for start in starts]).long()
    return TensorDataset(rows[:, :-1], rows[:, 1:])


def loss(scores_btv: torch.Tensor, targets_bt: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores_btv.flatten(0, 1), targets_bt.flatten())


def bits_per_byte(scores_btv: torch.Tensor, targets_bt: torch.Tensor) -> tuple[float, int]:
    nats = functional.cross_entropy(scores_btv.flatten(0, 1), targets_bt.flatten(), reduction="sum")
    return float(nats / torch.log(torch.tensor(2.0))), targets_bt.numel()


class ByteGpt(nn.Module):
    """Decoder-only, with learned places and the first layer's weights as the last one's."""

    def __init__(self, settings: ByteGptConfig) -> None:
        super().__init__()
        self.values = nn.Embedding(V, settings.width)
        self.places = nn.Embedding(settings.context, settings.width)
        self.blocks = nn.ModuleList(
            Block(settings.width, settings.heads) for _ in range(settings.layers)
        )
        self.norm = nn.LayerNorm(settings.width)
        for table in (self.values, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, inputs_bt: torch.Tensor) -> torch.Tensor:
        places = torch.arange(inputs_bt.shape[1], device=inputs_bt.device)
        stream_btd = self.values(inputs_bt) + self.places(places)
        for block in self.blocks:
            stream_btd = block(stream_btd)
        return functional.linear(self.norm(stream_btd), self.values.weight)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, stream_btd: torch.Tensor) -> torch.Tensor:
        batch, context, width = stream_btd.shape
        parts = self.attend(self.before(stream_btd)).chunk(3, dim=-1)
        query, key, value = (
            part.view(batch, context, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        stream_btd = stream_btd + self.mix(seen.transpose(1, 2).reshape(batch, context, width))
        thought: torch.Tensor = self.think(self.between(stream_btd))
        return stream_btd + thought
