"""The arguments of `p2pd sim` that run one fleet again, and what they say of its shape."""

from dataclasses import replace

from p2pd.core.voting.thresholds import Thresholds
from p2pd.errors import UsageError
from p2pd.sim.shape import PLAIN_MEAN, Drawn, FleetShape, Heads, Outer, RunEnds


def arguments(shape: FleetShape, seed: int) -> str:
    words = [f"--seed {seed}", f"--windows {shape.windows}", f"--faults {shape.faults.value}"]
    if shape.broken is not None:
        words.append(f"--break {shape.broken.value}")
    elif Drawn.SET not in shape.drawn:
        weights = ",".join(str(weight) for weight in shape.weights or (1,) * shape.validators)
        words.append(f"--set {weights}:{shape.quorum}")
    words += [
        f"--{what.value} {value}"
        for what, value, usual in (
            (Drawn.LOOKAHEAD, shape.lookahead, 0),
            (Drawn.OUTER, shape.outer.name, PLAIN_MEAN.name),
            (Drawn.HEADS, shape.heads.value, Heads.AS_MERGED.value),
            (Drawn.REVISIONS, shape.revisions, 1),
            (Drawn.ENDS, shape.ends.value, RunEnds.HEADS.value),
        )
        # Where a defence is off nothing is drawn.
        if what not in shape.drawn and (shape.broken is None or value != usual)
    ]
    if shape.sharded:
        words.append("--sharded")
    if shape.only is not None:
        words.append(f"--only {','.join(map(str, shape.only)) or 'none'}")
    if shape.without:
        words.append(f"--without {','.join(shape.without)}")
    return " ".join(words)


KINDS = ("seed", "validator", "reducer", "trainer", "viewer")
"""Of nodes; a number follows in a name."""
VALIDATORS_MOST = 16
"""More take hours."""
PLACES_MOST = 100_000


def with_set(shape: FleetShape, text: str) -> FleetShape:
    """Raises UsageError: text is not WEIGHTS:QUORUM, or no quorum of these weights."""
    left, _, right = text.partition(":")
    try:
        weights, quorum = tuple(map(int, left.split(","))), int(right)
        Thresholds(sum(weights), quorum)
    except ValueError as error:
        raise UsageError(
            f"--set {text:.60}: write weights and quorum as in 2,1,1:3 ({error})"
        ) from error
    count = len(weights)
    if count > VALIDATORS_MOST or min(weights) < 1:
        raise UsageError(f"--set {text:.60}: 1 to {VALIDATORS_MOST} weights of 1 or more")
    shape = _given(shape, Drawn.SET)
    return replace(shape, validators=count, weights=weights, quorum=quorum)


def with_work(
    shape: FleetShape,
    lookahead: int | None,
    outer: Outer | None,
    heads: Heads | None,
    revisions: int | None,
    ends: RunEnds | None,
) -> FleetShape:
    """What is not None is the same in every seed."""
    if lookahead is not None:
        shape = replace(_given(shape, Drawn.LOOKAHEAD), lookahead=lookahead)
    if outer is not None:
        shape = replace(_given(shape, Drawn.OUTER), outer=outer.rule)
    if heads is not None:
        shape = replace(_given(shape, Drawn.HEADS), heads=heads)
    if revisions is not None:
        shape = replace(_given(shape, Drawn.REVISIONS), revisions=revisions)
    if ends is not None:
        shape = replace(_given(shape, Drawn.ENDS), ends=ends)
    return shape


def _given(shape: FleetShape, what: Drawn) -> FleetShape:
    return replace(shape, drawn=shape.drawn - {what})


def narrowed(shape: FleetShape, only: str | None, without: str) -> FleetShape:
    """Raises UsageError: only is no list of places, or without none of names."""
    names = tuple(name for name in without.split(",") if name)
    for name in names:
        if name.rstrip("0123456789") not in KINDS or name in KINDS:
            raise UsageError(f"--without {name:.60}: no node is called so; trainer2 is one")
    if only is None:
        return replace(shape, without=names)
    listed = [] if only == "none" else only.split(",")
    try:
        places = tuple(map(int, listed))
    except ValueError as error:
        raise UsageError(f"--only {only:.60}: write places as in 3,17, or none") from error
    if any(not 0 <= place <= PLACES_MOST for place in places):
        raise UsageError(f"--only {only:.60}: places are from 0 to {PLACES_MOST}")
    return replace(shape, without=names, only=places)
