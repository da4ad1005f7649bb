"""Many seeds, one after the other or on several cores; what `p2pd sim` runs."""

import gc
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from p2pd.errors import LocalError, P2pError
from p2pd.lifeline import end_with
from p2pd.sim.checkers import Violation
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import run_fleet
from p2pd.sim.shape import FleetShape
from p2pd.sim.shrink import shrink


@dataclass(frozen=True, slots=True)
class SeedResult:
    seed: int
    decisions: int
    trace: str
    violations: tuple[Violation, ...]
    within_s: float = 0.0
    """After the last fault, and after each decision, the next must come within so many virtual seconds."""
    longest_s: float = 0.0
    """That it took."""
    virtual_s: float = 0.0
    """How long the fleet took, on its own clock."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether in each fleet the next decision came in time. Virtual seconds."""

    held: bool
    within_s: float
    longest_s: float
    """That any fleet took."""


@dataclass(frozen=True, slots=True)
class SuiteResult:
    ok: bool
    seeds: int
    windows: int
    decisions: int
    violations: tuple[Violation, ...]
    trace: str
    """Over the traces of all seeds, in order: the same for the same arguments."""
    seconds: float
    liveness: "Liveness"
    found_after_seeds: int | None
    """With a defence switched off: how many seeds it took to see it."""

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        if self.found_after_seeds is None:
            del data["found_after_seeds"]
        return data


def run_seed(shape: FleetShape, seed: int) -> SeedResult:
    """A node that gave up (a spinning task, a merge mismatch, a copied identity) is a violation too."""
    failures: list[str] = []
    try:
        with _quiet(), _uncollected():
            fleet = run_fleet(seed, shape)
    except* LocalError as group:
        failures += [str(error) for error in _leaves(group)]
    if failures:
        return SeedResult(seed, 0, "", (Violation(seed, "crash", 0, "; ".join(failures)),))
    violations = tuple(fleet.checkers.violations)
    return SeedResult(
        seed=seed,
        decisions=fleet.decisions,
        trace=fleet.trace,
        violations=violations,
        within_s=fleet.within_s,
        longest_s=fleet.longest_s,
        virtual_s=fleet.virtual_s,
    )


def shrunk(shape: FleetShape, violation: Violation) -> FleetShape:
    """A smaller fleet in which the same seed breaks the same invariant."""

    def fails(smaller: FleetShape) -> bool:
        found = run_seed(smaller, violation.seed).violations
        return any(one.invariant == violation.invariant for one in found)

    return shrink(shape, violation.seed, fails)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leaves cyclic garbage until the fleet is over: it is little, and looking for it takes an eighth of the time."""
    usual = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if usual:
            gc.enable()
        gc.collect()


@contextmanager
def _quiet() -> Iterator[None]:
    """Faults are the point here, and no news."""
    logger = logging.getLogger("p2pd")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _leaves(group: BaseExceptionGroup[P2pError]) -> Iterator[P2pError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def run_suite(seeds: range, shape: FleetShape, report: Callable[[SeedResult], None]) -> SuiteResult:
    """Runs all seeds; with a defence switched off, until the checkers see it."""
    started_s = time.monotonic()
    results: list[SeedResult] = []
    for result in _results(seeds, shape):
        results.append(result)
        report(result)
        if shape.broken is not None and result.violations:
            break
    violations = tuple(violation for result in results for violation in result.violations)
    found = len(results) if shape.broken is not None and violations else None
    return SuiteResult(
        ok=bool(violations) == (shape.broken is not None),
        seeds=len(results),
        windows=shape.windows,
        decisions=sum(result.decisions for result in results),
        violations=violations,
        trace=sha256("".join(result.trace for result in results).encode()).hexdigest(),
        seconds=round(time.monotonic() - started_s, 3),
        liveness=Liveness(
            not any(violation.invariant == "liveness" for violation in violations),
            max(result.within_s for result in results),
            max(result.longest_s for result in results),
        ),
        found_after_seeds=found,
    )


def _results(seeds: range, shape: FleetShape) -> Iterator[SeedResult]:
    """In the order of the seeds, whatever order they end in."""
    run = partial(run_seed, shape)
    workers = min(len(seeds), os.cpu_count() or 1)
    if workers < 2:
        yield from map(run, seeds)
        return
    # Spawned: a forked child would inherit whatever the parent's tasks hold.
    context = multiprocessing.get_context("spawn")
    others = frozenset(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, context, end_with, (os.getpid(),)) as pool:
        wanted = True
        try:
            with _deaf():
                results = pool.map(run, seeds)
            yield from results
            wanted = False
        finally:
            if wanted:  # interrupted, or enough was seen: a fleet would go on for seconds
                for worker in frozenset(multiprocessing.active_children()) - others:
                    worker.kill()
            pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """What is started meanwhile does not hear Ctrl-C: its parent does, and ends it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


__all__ = ["FaultSet", "FleetShape", "SuiteResult", "run_suite"]
