"""Certified decisions per second when there is nothing to train: what agreeing itself costs.

In memory: nodes with the real node, voting and wire code, in one process and on one core, on the
simulator's network, ledger and stores; virtual delays cost nothing. On loopback: real daemons with
a model of 25 numbers, so that fetching, screening, merging and evaluating it are in the time, too.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import trio

from p2pd.bench.ed25519 import decisions_row
from p2pd.bench.fleet import Shape, run_fleet
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.bench.window import durations
from p2pd.core.wording import counted
from p2pd.errors import P2pError
from p2pd.sim.suite import FaultSet, FleetShape, run_seed

VALIDATORS = (1, 3, 4, 7)
WINDOWS = 30
DAEMON_WINDOWS = 40
WARM_UP = 3
TINY_MB = 0.0001
LIMIT_S = 300.0


def run(options: Options) -> Sequence[Row]:
    windows = options.repeats or WINDOWS
    rows = [in_memory(validators, windows, options) for validators in VALIDATORS]
    return (*rows, on_loopback(options.repeats or DAEMON_WINDOWS, options))


def in_memory(validators: int, windows: int, options: Options) -> Row:
    """
    Raises:
        P2pError: the fleet broke an invariant or did not come to its end.
    """
    shape = FleetShape(
        validators=validators,
        quorum=2 * validators // 3 + 1,
        trainers=1,
        reducers=0,
        windows=windows,
        faults=FaultSet.NONE,
    )
    started_s = perf_counter()
    result = run_seed(shape, 0)
    seconds = perf_counter() - started_s
    if result.violations:
        raise P2pError(f"{counted(validators, 'validator')} in memory: {result.violations[0].what}")
    name = f"in memory, {counted(validators, 'validator')}"
    options.say(f"{name}: {counted(result.decisions, 'decision')}")
    per_s = result.decisions / seconds
    return decisions_row(name, per_s, validators=validators, trainers=1, nodes=1)


def on_loopback(windows: int, options: Options) -> Row:
    shape = Shape(megabytes=TINY_MB, windows=WARM_UP + windows, warm_up=WARM_UP, trainers=1)
    with tempfile.TemporaryDirectory(prefix="p2pd-bench-") as directory:
        found = trio.run(run_fleet, Path(directory), shape, LIMIT_S, options.say)
    taken = [sum(durations(row).values()) for row in found.rows["validator1"]]
    if not taken:
        raise P2pError("the daemons certified nothing that could be measured")
    return decisions_row(
        f"loopback daemons, {counted(shape.validators, 'validator')}",
        1 / median(taken),
        validators=shape.validators,
        trainers=1,
        nodes=shape.validators,
    )
