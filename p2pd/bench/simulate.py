"""How fast the simulator is: whole fleets under faults, one after the other on one core.

The floor of decisions is PyNaCl alone, with the signatures that one of them must cost.
"""

from collections.abc import Sequence
from time import perf_counter

from p2pd.bench.ed25519 import decisions_row
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.core.wording import counted
from p2pd.errors import LocalError
from p2pd.sim.suite import FaultSet, FleetShape, run_seed

WINDOWS = 10
SEEDS = 3


def run(options: Options) -> Sequence[Row]:
    seeds = range(options.repeats or SEEDS)
    rows: list[Row] = []
    for faults in (FaultSet.NONE, FaultSet.ALL):
        rows += measure(FleetShape(windows=WINDOWS, faults=faults), seeds, options)
    return rows


def measure(shape: FleetShape, seeds: range, options: Options) -> Sequence[Row]:
    """
    Raises:
        LocalError: a fleet broke an invariant: there is nothing to measure.
    """
    decisions, virtual_s = 0, 0.0
    started_s = perf_counter()
    for seed in seeds:
        result = run_seed(shape, seed)
        if result.violations:
            raise LocalError(f"seed {seed}: {result.violations[0].what}: see p2pd sim")
        decisions += result.decisions
        virtual_s += result.virtual_s
        options.say(
            f"faults {shape.faults.value}, seed {seed}: {counted(result.decisions, 'decision')}"
        )
    seconds = perf_counter() - started_s
    name = f"faults {shape.faults.value}"
    return (
        Row(f"{name}: virtual time", virtual_s / seconds, "s/s", 1.0, "the wall clock"),
        decisions_row(
            f"{name}: decisions",
            decisions / seconds,
            validators=shape.validators,
            trainers=shape.trainers,
            nodes=1,
        ),
    )
