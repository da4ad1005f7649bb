"""A fixed merge whose results are known: does this machine compute the bits that all others do?

The inputs hold both zeros, denormals, values near the largest float32, every floating type,
buffers, and a tensor longer than one chunk. They come from integer arithmetic, not from a random
generator.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import CODECS, SCALE_SUFFIX, element_count, outer_schema, update_schema
from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, UpdateId, digest
from p2pd.core.work import (
    MILLION,
    Merged,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    Schema,
    TensorSpec,
    state_parts,
)
from p2pd.errors import LocalError
from p2pd.tensors.blocks import packed
from p2pd.tensors.files import ArtifactWriter
from p2pd.tensors.formats import FORMATS, Stored, Values
from p2pd.tensors.formats import encode as store
from p2pd.tensors.merge import Outputs, merge

UPDATES = 5
WEIGHTS = (2**53 + 1, 3 * 2**52 + 7, 2**53 - 1, 640, 2**52 + 3)
"""Some that float64 must round, one that hardly counts."""
SCHEMA = Schema(
    (
        TensorSpec("bias", "F16", (130,), False),
        TensorSpec("counter", "I64", (), True),
        TensorSpec("double", "F64", (7, 11), False),
        TensorSpec("half", "BF16", (3, 5, 70), False),
        TensorSpec("mask", "BOOL", (5,), True),
        TensorSpec("running", "F32", (33,), True),
        TensorSpec("scalar", "F32", (), False),
        TensorSpec("weight", "F32", (317, 211), False),
    )
)
SMALL = (0.0, 1e-45, -1e-45, 1e-40, 2.0**-126, -(2.0**-149), 6e-8, 0.0, 1.0, 1.0 + 2.0**-23, -1.0)
"""What rounding, denormals and the two zeros could make differ; rotated from update to update.

The zero at the odd place is written as -0.0.
"""
HUGE = (255 * 2.0**120, -255 * 2.0**120)
"""The largest BF16: where training left it alone, and in a buffer, where updates differ by it."""


MEAN = MergeRule("mean", MILLION, 0)
PLAIN = OuterRule("mean", MILLION, 0)


@dataclass(frozen=True, slots=True)
class Golden:
    rule: MergeRule
    codec: str
    optimizer: OuterRule
    result: str
    """SHA-256 over the encoded Merged: head, state and step, clips, and what was measured."""
    head_codec: str = "f32"


GOLDEN = (
    Golden(
        MEAN,
        "f32",
        PLAIN,
        "24a3279f369884ff8ef448745a7bb9f1c8eac49d2d46f53593ab7cb3af53771a",
    ),
    Golden(
        MergeRule("norm_clipped_mean", 900_000, 0),
        "f32",
        PLAIN,
        "aef6024106afa92952ddc1c6c26615510ffe74ca360d2a8b5f429608d0819d1a",
    ),
    Golden(
        MergeRule("norm_clipped_mean", 2 * MILLION, 0),
        "f32",
        PLAIN,
        "6015fe08c0db9d33f732ba3efecd14f657712b8a47a4ea7360174e0500a2c2c6",
    ),
    Golden(
        MergeRule("trimmed_mean", MILLION, 200_000),
        "f32",
        PLAIN,
        "66afe4e362c96bed564b27918cb80cdaa86a1572484f10430451a984d7e37a45",
    ),
    Golden(MEAN, "bf16", PLAIN, "9353f6543abe523b0c0f9666c12bdf4e974ae70176c7a255a8caccbd1ad9cbe2"),
    Golden(
        MergeRule("norm_clipped_mean", 900_000, 0),
        "int8",
        PLAIN,
        "c0b637e9d262b11e33af38fa53e9aa123a0b4b865bad46abd7d7a62149687384",
    ),
    Golden(
        MEAN,
        "f32",
        OuterRule("sgd", 700_000, 0),
        "2ce3c3783bee9f722df8499d3a7e2155647453ad9f2ca7b68acb911ef230680e",
    ),
    Golden(
        MergeRule("trimmed_mean", MILLION, 200_000),
        "f32",
        OuterRule("sgd", MILLION, 900_000),
        "e3c00560defb4c10b2e1772c9303744f1e3df3a7ddbd74919e178e96caeffb50",
    ),
    Golden(
        MergeRule("norm_clipped_mean", 900_000, 0),
        "int8",
        OuterRule("nesterov", 700_000, 900_000),
        "c7833ae0efcf6d5fb4a39486f980fac47b62889194592871ff1d8e149de90cab",
    ),
    Golden(
        MergeRule("trimmed_mean", MILLION, 200_000),
        "int4",
        OuterRule("nesterov", 700_000, 500_000),
        "66e99d639a1c30fe73d5185491fc7db11403709a6643af9411afefcd8913789c",
    ),
    Golden(
        MEAN,
        "f32",
        PLAIN,
        "ef22bd174b6a86a48b7047acab1a35ffafe4048342fa4ffb11e0ab0201e1d022",
        "int8",
    ),
    Golden(
        MergeRule("norm_clipped_mean", 900_000, 0),
        "int8",
        OuterRule("nesterov", 700_000, 900_000),
        "446b4458f418d7a53a8197f1e00e67451ff88442ccfc472bb1d1cbf6e2755a75",
        "int8",
    ),
)


def self_test(threads: int = 1) -> None:
    """Merges the golden inputs under every rule, in so many threads.

    Raises:
        LocalError: other bits came out: this machine must not vote.
    """
    with tempfile.TemporaryDirectory(prefix="p2pd-golden-") as directory:
        for golden, found in zip(
            GOLDEN, golden_results(Path(directory), threads=threads), strict=True
        ):
            if found != golden.result:
                raise LocalError(
                    f"self-test: {golden.rule.name} of {golden.codec} gives {found[:10]}, not {golden.result[:10]}: "
                    "numpy on this machine computes other bits; it must not vote"
                )


def golden_results(
    directory: Path, arrival: tuple[int, ...] = tuple(range(UPDATES)), *, threads: int = 1
) -> list[str]:
    """What each golden merge gives here, with the updates arriving in any order."""
    base = write_golden(directory / "base", ArtifactKind.HEAD, 0)
    paths = {base: directory / "base"}
    outer = {}
    for parts in (1, 2):
        path = directory / f"outer-{parts}"
        outer[parts] = _write_golden_state(path, parts)
        paths[outer[parts]] = path
    inputs: dict[str, tuple[MergeInput, ...]] = {}
    for codec in CODECS:
        found: list[MergeInput] = []
        for number in arrival:
            path = directory / f"update-{number}-{codec}"
            update = write_golden(path, ArtifactKind.UPDATE, number + 1, codec)
            paths[update] = path
            name = UpdateId(digest("golden", bytes([number])))
            found.append(MergeInput(name, update, WEIGHTS[number]))
        inputs[codec] = tuple(sorted(found, key=lambda entry: entry.update))
    results = []
    for number, golden in enumerate(GOLDEN):
        job = MergeJob(
            base=base,
            outer=outer.get(state_parts(golden.optimizer, golden.head_codec)),
            schema=SCHEMA,
            inputs=inputs[golden.codec],
            exponents=None,
            rule=golden.rule,
            optimizer=golden.optimizer,
            codec=golden.codec,
            head_codec=golden.head_codec,
        )
        outputs = Outputs.beside(directory / f"head-{number}")
        results.append(fingerprint(merge(paths, job, outputs, threads=threads).merged))
    return results


def fingerprint(merged: Merged) -> str:
    return digest("golden", encode(merged)).hex()


def write_golden(path: Path, kind: ArtifactKind, seed: int, codec: str = "f32") -> ArtifactId:
    """Writes the base (seed 0), or an update near it; the last update is far off. Keeps -0.0."""
    schema = update_schema(SCHEMA, codec)
    values = {tensor.name: tensor for tensor in SCHEMA.tensors}
    with ArtifactWriter(path, kind, schema) as writer:
        for number, tensor in enumerate(schema.tensors):
            if values.get(tensor.name) == tensor:
                writer.write(_elements(tensor, number, seed))
            else:
                writer.write(_steps(tensor, number, seed))
        return writer.finish().id


def _write_golden_state(path: Path, parts: int) -> ArtifactId:
    """A velocity of the outer optimizer, or what a head's codec lost, or both."""
    schema = outer_schema(SCHEMA, parts)
    with ArtifactWriter(path, ArtifactKind.OUTER, schema) as writer:
        for number, tensor in enumerate(schema.tensors):
            writer.write(_steps(tensor, number, UPDATES + 1))
        return writer.finish().id


def _steps(tensor: TensorSpec, number: int, seed: int) -> Stored:
    """What a codec holds of a trained tensor: whole numbers and their scales, or small fractions."""
    own = _scrambled(element_count(tensor), 1000 * seed + 700 + number)
    if tensor.dtype == "I8":
        return (own % np.uint64(255)).astype(np.int64).astype(np.int8)
    if tensor.dtype == "U8":
        return packed((own % np.uint64(15)).astype(np.float64).repeat(2) - 7.0)
    size = 4.0 if seed == UPDATES else 0.0625
    scales = _fractions(own)
    if tensor.name.endswith(SCALE_SUFFIX):
        scales = np.abs(scales) / 64
    values = scales * size
    for place in range(0, len(values), 17):
        values[place] = abs(SMALL[(place + seed) % 7])
    return store(values, tensor.dtype)


def _elements(tensor: TensorSpec, number: int, seed: int) -> Stored:
    count = element_count(tensor)
    shared, own = _scrambled(count, number), _scrambled(count, 1000 * seed + 500 + number)
    if tensor.dtype == "BOOL":
        return (own % np.uint64(2)).astype(np.uint8)
    if not FORMATS[tensor.dtype].floating:
        return own.view(np.int64)
    step = 0.0 if seed == 0 else 4.0 if seed == UPDATES else 0.0625
    values = _fractions(shared) + _fractions(own) * step
    special: tuple[float, ...] = SMALL
    if tensor.name == "running":
        special = HUGE + SMALL
        values = np.array([special[(place + seed) % len(special)] for place in range(count)])
    elif count > len(SMALL) + len(HUGE):
        for place in range(len(SMALL)):
            values[place] = SMALL[(place + seed) % len(SMALL)]
        if tensor.dtype != "F16":
            values[len(SMALL) : len(SMALL) + len(HUGE)] = HUGE
    stored = store(values, tensor.dtype)
    minus_zero = np.array([0x8000 if tensor.dtype == "BF16" else -0.0]).astype(stored.dtype)
    second_zero = (np.arange(count) + seed) % len(special) % 2 == 1
    return np.where((stored == 0) & second_zero, minus_zero, stored)


def _scrambled(count: int, seed: int) -> npt.NDArray[np.uint64]:
    """Source: SplitMix64, Steele, Lea and Flood, 2014."""
    state = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _fractions(scrambled: npt.NDArray[np.uint64]) -> Values:
    return (scrambled >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
