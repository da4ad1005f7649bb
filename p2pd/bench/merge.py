"""How fast updates are merged, as the product does it: by the math process, files in, artifact out.

In the time of a merge: the call to the process and its answer; every byte of base and updates read
from the page cache, checked to be finite, its exact norm taken; the rule in float64; the head
hashed, written, synced and taken into the store. Not in it: fetching and screening the updates.
"""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import trio

from p2pd.bench.floors import memcpy_bytes_s
from p2pd.bench.room import Takes
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.config.node import StoreSettings
from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.ids import ArtifactId, UpdateId, digest
from p2pd.core.work import (
    MILLION,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    Schema,
    TensorSpec,
)
from p2pd.errors import P2pError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.math import MathConfig, MathProcess
from p2pd.lifeline import tied
from p2pd.tensors.files import write_artifact
from p2pd.tensors.formats import Stored
from p2pd.tensors.layout import layout_of

SIZE_MB = 100.0
UPDATES = 4
TAKES = Takes(disk=8, memory=5, sizes_mb=(SIZE_MB,))
"""A base, the updates, the head of each rule; torch holds the updates and makes a mean."""
MANY = 16
REPEATS = 3
WEIGHTS = (1024, 2048, 640, 3072)
"""Repeated for more updates."""
TENSOR_ELEMENTS = 2**22
STEP = 1e-3
RULES = (
    MergeRule("mean", 2 * MILLION, 0),
    MergeRule("norm_clipped_mean", 2 * MILLION, 0),
    MergeRule("trimmed_mean", 2 * MILLION, MILLION // 4),
)
SAMPLE_S = 0.01
MB = 1e6
GB = 1e9


def run(options: Options) -> Sequence[Row]:
    rows: list[Row] = []
    for size_mb in options.sizes_mb or (SIZE_MB,):
        with tempfile.TemporaryDirectory(prefix="p2pd-bench-") as directory:
            rows += trio.run(_measure, Path(directory), size_mb, options)
    return rows


@dataclass(slots=True)
class _Stage:
    """A store with a base, a few updates, and the process that merges them."""

    store: FileBlobStore
    math: MathProcess
    base: ArtifactId
    updates: list[ArtifactId]
    schema: Schema
    exponents: tuple[int, ...] | None = None

    def job(self, rule: MergeRule, count: int) -> MergeJob:
        """Where count is greater than the number of files, they come again under other names."""
        inputs = [
            MergeInput(
                UpdateId(digest("bench-update", bytes([number]))),
                self.updates[number % len(self.updates)],
                WEIGHTS[number % len(WEIGHTS)],
            )
            for number in range(count)
        ]
        return MergeJob(
            base=self.base,
            outer=None,
            schema=self.schema,
            inputs=tuple(sorted(inputs, key=lambda one: one.update)),
            exponents=self.exponents,
            rule=rule,
            optimizer=OuterRule("mean", MILLION, 0),
        )

    async def seconds(self, job: MergeJob, times: int) -> float:
        found = []
        for _ in range(times):
            started_s = perf_counter()
            merged = await self.math.merge(job)
            found.append(perf_counter() - started_s)
            # The next one is new to the store, as every head is: putting it in the place of another costs more.
            self.store.path(merged.head).unlink()
            if merged.measured is not None:
                self.exponents = merged.measured.exponents
        return min(found)


async def _measure(directory: Path, size_mb: float, options: Options) -> Sequence[Row]:
    settings = StoreSettings(quota_bytes=0, reserve_bytes=0)
    store = FileBlobStore(directory / "blobs", settings, on_damage=lambda *_: None)
    schema = model(size_mb)
    base, *updates = [await _fill(store, schema, number) for number in range(UPDATES + 1)]
    async with MathProcess.open(store, MathConfig()) as math:
        stage = _Stage(store, math, base, updates, schema)
        # The first merge of a revision takes one pass more: the scale is not certified yet.
        await math.self_test()
        await stage.seconds(stage.job(RULES[0], UPDATES), 1)
        return await _rows(stage, size_mb, options)


async def _rows(stage: _Stage, size_mb: float, options: Options) -> Sequence[Row]:
    times = options.repeats or REPEATS
    name = f"{UPDATES} x {size_mb:g} MB"
    copy_gb_s = memcpy_bytes_s(round(size_mb * MB)) / GB
    rows: list[Row] = []
    for rule in RULES:
        options.say(f"{rule.name}, {name}")
        seconds = await stage.seconds(stage.job(rule, UPDATES), times)
        if rule is RULES[0]:
            rows += await _beside_torch(stage, f"{name} mean", seconds, times)
        gb_s = UPDATES * size_mb * MB / GB / seconds
        rows.append(Row(f"{name} {rule.name}", gb_s, "GB/s", copy_gb_s, "memcpy"))
    options.say(f"memory of {MANY} x {size_mb:g} MB")
    peak_mb = await _peak_mb(stage, stage.job(RULES[1], MANY))
    inputs_mb = MANY * size_mb
    rows.append(
        Row(f"{MANY} x {size_mb:g} MB peak memory", peak_mb, "MB", inputs_mb, "all the updates")
    )
    return rows


async def _beside_torch(stage: _Stage, name: str, seconds: float, times: int) -> Sequence[Row]:
    rows = []
    for threads in dict.fromkeys((1, os.cpu_count() or 1)):
        torch_s = await trio.to_thread.run_sync(_torch_s, stage, threads, times)
        floor_name = f"torch, the tensors in memory, {threads} thread{'s' * (threads > 1)}"
        rows.append(Row(f"{name}, torch {threads}", seconds, "s", torch_s, floor_name))
    return rows


def _torch_s(stage: _Stage, threads: int, times: int) -> float:
    command = tied("p2pd.bench.torch_mean", str(threads), str(times + 1))
    for artifact, weight in zip(stage.updates, WEIGHTS, strict=True):
        command += [str(weight), str(stage.store.path(artifact))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise P2pError(f"torch failed: {last}")
    return float(done.stdout)


async def _peak_mb(stage: _Stage, job: MergeJob) -> float:
    """What the process holds at most of its own; pages of mapped files are the kernel's to take back."""
    peak_bytes = 0

    async def watch() -> None:
        nonlocal peak_bytes
        while True:
            peak_bytes = max(peak_bytes, _own_bytes(stage.math.process_id))
            await trio.sleep(SAMPLE_S)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await stage.math.merge(job)
        nursery.cancel_scope.cancel()
    return max(peak_bytes, _own_bytes(stage.math.process_id)) / MB


def _own_bytes(process: int | None) -> int:
    """Source: proc(5), RssAnon."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def model(size_mb: float) -> Schema:
    """Of float32, in tensors that are no larger than those of real models."""
    elements = max(1, round(size_mb * MB / 4))
    sizes = [
        min(TENSOR_ELEMENTS, elements - start) for start in range(0, elements, TENSOR_ELEMENTS)
    ]
    return Schema(
        tuple(TensorSpec(f"layer{n:04}", "F32", (size,), False) for n, size in enumerate(sizes))
    )


async def _fill(store: FileBlobStore, schema: Schema, number: int) -> ArtifactId:
    """A base, number 0, or an update that has moved a little from it."""
    size_bytes = layout_of(schema.tensors).size_bytes
    async with store.output(".filling", size_bytes) as path:
        manifest = await trio.to_thread.run_sync(_write, path, schema, number)
        return await store.adopt(path, manifest)


def _write(path: Path, schema: Schema, number: int) -> Manifest:
    start, chance = np.random.default_rng(0), np.random.default_rng(number)
    arrays: dict[str, Stored] = {}
    for tensor in schema.tensors:
        values = start.standard_normal(tensor.shape, np.float32)
        if number:
            values += chance.standard_normal(tensor.shape, np.float32) * np.float32(STEP)
        arrays[tensor.name] = values
    kind = ArtifactKind.UPDATE if number else ArtifactKind.HEAD
    return write_artifact(path, kind, schema, arrays)
