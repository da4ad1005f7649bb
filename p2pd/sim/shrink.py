"""Makes a failing fleet smaller: fewer windows, fewer faults, fewer nodes, and it still fails in the same way.

Greedy and bounded: the same failure always becomes the same small one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from p2pd.sim.shape import Drawn, FleetShape

RUNS_MOST = 60
"""Fleets that are run to make one failure smaller."""
SPARED = ("seed", "validator")
"""The network is made of these; and each revision has a trainer."""

Fails = Callable[[FleetShape], bool]


@dataclass(slots=True)
class _Trials:
    fails: Fails
    left: int

    def accept(self, shape: FleetShape) -> bool:
        self.left -= 1
        return self.left >= 0 and self.fails(shape)


def shrink(shape: FleetShape, seed: int, fails: Fails, *, runs_most: int = RUNS_MOST) -> FleetShape:
    """The smallest shape found that fails. shape itself must fail."""
    trials = _Trials(fails, runs_most)
    shape = _fewer_windows(shape, trials)
    shape = _one_revision(shape, seed, trials)
    shape = _fewer_faults(shape, seed, trials)
    return _fewer_nodes(shape, seed, trials)


def _fewer_windows(shape: FleetShape, trials: _Trials) -> FleetShape:
    windows = 1
    while windows < shape.windows:
        smaller = replace(shape, windows=windows)
        if trials.accept(smaller):
            return smaller
        windows *= 2
    return shape


def _one_revision(shape: FleetShape, seed: int, trials: _Trials) -> FleetShape:
    if shape.of_seed(seed).revisions == 1:
        return shape
    smaller = replace(shape, drawn=shape.drawn - {Drawn.REVISIONS}, revisions=1)
    return smaller if trials.accept(smaller) else shape


def _fewer_faults(shape: FleetShape, seed: int, trials: _Trials) -> FleetShape:
    """Leaves out halves, quarters and so on, down to single faults, as long as any can go."""
    places = shape.only
    if places is None:
        places = tuple(range(len(shape.of_seed(seed).schedule(seed))))
    size = len(places)
    while size:
        for chunk in _chunks(places, size):
            rest = tuple(place for place in places if place not in chunk)
            smaller = replace(shape, only=rest)
            if trials.accept(smaller):
                shape, places = smaller, rest
        size //= 2
    return shape


def _chunks(places: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(places), size):
        yield places[start : start + size]


def _fewer_nodes(shape: FleetShape, seed: int, trials: _Trials) -> FleetShape:
    one = shape.of_seed(seed)
    spared = (*SPARED, *(f"trainer{n + 1}" for n in range(one.revisions)))
    for name in reversed(one.names()):
        if not name.startswith(spared) and name not in shape.without:
            smaller = replace(shape, without=(*shape.without, name))
            if trials.accept(smaller):
                shape = smaller
    return shape
