"""A fleet in the words of the command line."""

import shlex
from dataclasses import replace
from itertools import product

import pytest

from p2pd.core.reconcile import RECONCILE
from p2pd.errors import UsageError
from p2pd.sim.breaks import Break
from p2pd.sim.faults import FaultSet
from p2pd.sim.replay import arguments, narrowed, with_set, with_work
from p2pd.sim.shape import SETS, Drawn, FleetShape, Heads, Outer, RunEnds


def test_the_arguments_name_all_that_is_left_of_a_fleet() -> None:
    shape = FleetShape(windows=3, faults=FaultSet.DISK, drawn=frozenset(Drawn))
    assert arguments(shape, 7) == "--seed 7 --windows 3 --faults disk"
    small = replace(shape, only=(3, 17), without=("trainer2", "viewer1"))
    assert arguments(small, 7).endswith("--only 3,17 --without trainer2,viewer1")
    assert arguments(replace(shape, only=()), 7).endswith("--only none")
    assert arguments(replace(shape, sharded=True), 7).endswith("--faults disk --sharded")
    broken = FleetShape(windows=3).attacked(Break.QUORUM)
    assert arguments(broken, 7) == "--seed 7 --windows 3 --faults all --break quorum"
    assert arguments(replace(broken, lookahead=1), 7).endswith("--break quorum --lookahead 1")


@pytest.mark.parametrize("shape", [
    FleetShape(windows=3, weights=(2, 1, 1), quorum=3, only=(), without=("trainer1",)),
    FleetShape(windows=3, validators=2, weights=(1, 1), quorum=2, only=(5, 6)),
    FleetShape(
        windows=3, weights=(1, 1, 1), only=(), lookahead=1, revisions=2, outer=Outer.NESTEROV.rule,
        ends=RunEnds.EXTENDED,
    ),
])  # fmt: skip
def test_the_arguments_give_the_same_fleet(shape: FleetShape) -> None:
    words = shlex.split(arguments(shape, 0))
    given = dict(zip(words[::2], words[1::2], strict=True))
    again = with_set(FleetShape(windows=int(given["--windows"])), given["--set"])
    outer, revisions = Outer(given["--outer"]), int(given["--revisions"])
    again = with_work(
        again,
        int(given["--lookahead"]),
        outer,
        Heads(given["--heads"]),
        revisions,
        RunEnds(given["--ends"]),
    )
    assert narrowed(again, given["--only"], given.get("--without", "")) == shape


@pytest.mark.parametrize(
    "text", ["", "1,1", "1,1:", "1,x:2", "1,1,1:1", "1,1:3", "0,1:1", "2,-1:1"]
)
def test_an_impossible_set_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        with_set(FleetShape(), text)


def test_places_that_are_no_numbers_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--only"):
        narrowed(FleetShape(), "3,x", "")


def test_each_seed_draws_one_set_and_all_are_drawn() -> None:
    shape = FleetShape(drawn=frozenset(Drawn))
    drawn = [shape.of_seed(seed) for seed in range(200)]
    assert {(one.weights, one.quorum) for one in drawn} == {(s.weights, s.quorum) for s, _ in SETS}
    assert drawn == [shape.of_seed(seed) for seed in range(200)]
    assert {one.validators for one in drawn} == {1, 2, 3, 4, 5, 7}
    ways = {(one.lookahead, one.outer.name, one.revisions) for one in drawn}
    assert ways == set(product((0, 1), ("mean", "nesterov"), (1, 2)))
    assert {one.heads for one in drawn} == set(Heads)
    assert {one.reconcile for one in drawn if one.lookahead} == {*RECONCILE}
    assert {one.ends for one in drawn} == set(RunEnds)


def test_what_is_given_is_not_drawn() -> None:
    shape = with_work(
        FleetShape(drawn=frozenset(Drawn)), 1, Outer.NESTEROV, Heads.IN_STEPS, 2, RunEnds.TARGET
    )
    for seed in range(20):
        one = shape.of_seed(seed)
        assert (one.lookahead, one.outer.name, one.revisions) == (1, "nesterov", 2)
        assert one.heads is Heads.IN_STEPS
        assert one.ends is RunEnds.TARGET


def test_a_shape_that_is_given_is_not_drawn() -> None:
    shape = FleetShape(faults=FaultSet.CRASH)
    assert shape.of_seed(3) == shape
