"""What trainers send and receive by each way that updates and heads may travel, and what that costs in loss.

A fleet of four trainers and three validators really trains, in windows of 50 steps, once for each way
(--repeats: so many times, with other draws of the data); see communication_course. Beside it stands what each
trainer would send in a float32 ring all-reduce of every step. MB are 10**6 bytes. QUIC's own headers and
acknowledgements are not in it.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import Any

from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.errors import P2pError
from p2pd.lifeline import tied

STEPS = 50
WAYS = (
    ("f32", "f32"),
    ("bf16", "f32"),
    ("int8", "f32"),
    ("int4", "f32"),
    ("int8", "int8"),
    ("int4", "int8"),
)
"""Codecs of updates and of heads; the loss of the first is what others are compared with."""
MB = 1e6
Trial = Mapping[str, Any]

BYTES: Trial = {
    "workload": "p2pd.workloads.bytegpt",
    "config": {"width": 128, "layers": 1, "context": 32, "batch": 4},
    "batch": 4,
    "heads": 8,
}
"""A model of 235,000 parameters on text that every Python brings along."""
MNIST: Trial = {
    "workload": "p2pd.workloads.mnist",
    "config": {"model": "mlp", "batch": 32},
    "batch": 32,
    "heads": 16,
}
WORKERS_MOST = 4


def run(options: Options) -> Sequence[Row]:
    trial = BYTES
    if options.data is not None:
        config = {**MNIST["config"], "directory": str(options.data.absolute())}
        trial = {**MNIST, "config": config}
    seeds = range(options.repeats or 1)
    trials = [
        {**trial, "steps": STEPS, "codec": codec, "head_codec": head_codec, "seed": seed}
        for codec, head_codec in WAYS
        for seed in seeds
    ]

    def tried(one: Trial) -> dict[str, float]:
        found = _tried(one)
        options.say(f"{_name(one['codec'], one['head_codec'])}: loss {found['loss']:.4f}")
        return found

    # Each is a process of its own, of one thread.
    with ThreadPoolExecutor(min(WORKERS_MOST, os.cpu_count() or 1)) as workers:
        found = list(workers.map(tried, trials))
    count = len(seeds)
    means = [
        {key: fmean(one[key] for one in found[start : start + count]) for key in found[0]}
        for start in range(0, len(found), count)
    ]
    return report(means)


def report(means: Sequence[Mapping[str, float]]) -> Sequence[Row]:
    """means are of WAYS."""
    rows: list[Row] = []
    plain = means[0]["loss"]
    for (codec, head_codec), found in zip(WAYS, means, strict=True):
        name, wire_mb = _name(codec, head_codec), found["wire_bytes"] / MB
        if head_codec == "f32":
            gradients_mb, update_mb = found["gradients_bytes"] / MB, found["update_bytes"] / MB
            gradients = f"{name}: gradients of {STEPS} steps"
            rows.append(Row(gradients, gradients_mb, "MB", update_mb, "the update, a file"))
        reduced, each = f"{name}: all-reduce of {STEPS} steps", "sent and received in a window"
        rows.append(Row(reduced, found["reduced_bytes"] / MB, "MB", wire_mb, each))
        rows.append(Row(f"{name}: last loss", found["loss"], "", plain, "f32"))
    return rows


def _name(codec: str, head_codec: str) -> str:
    return codec if head_codec == "f32" else f"{codec}, heads {head_codec}"


def _tried(trial: Trial) -> dict[str, float]:
    command = tied("p2pd.bench.communication_course", json.dumps(trial))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise P2pError(f"training with {trial['codec']} failed: {last}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
