"""What a simulated fleet consists of, and what befalls it."""

from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from p2pd.core.reconcile import RECONCILE
from p2pd.core.voting.thresholds import Thresholds
from p2pd.core.work import MILLION, OuterRule
from p2pd.sim.breaks import ATTACKS, Break
from p2pd.sim.drawing import Named, draw_faults
from p2pd.sim.faults import Fault, FaultSet
from p2pd.sim.liars import Lie, draw_liars

FAULTS_END_S = 90.0
PLAIN_MEAN = OuterRule("mean", MILLION, 0)


class Outer(Enum):
    """Outer optimizers that scripted math knows."""

    MEAN = "mean"
    NESTEROV = "nesterov"

    @property
    def rule(self) -> OuterRule:
        return (
            PLAIN_MEAN if self is Outer.MEAN else OuterRule("nesterov", MILLION // 2, MILLION // 2)
        )


class Heads(Enum):
    """How heads follow from each other."""

    AS_MERGED = "f32"
    IN_STEPS = "int8"


class RunEnds(Enum):
    """How runs come to their end."""

    HEADS = "heads"
    """After as many as there are windows."""
    EXTENDED = "extended"
    """After half of them; then the authority has them go on."""
    TARGET = "target"
    """With a head that is good enough, if one comes in time."""


class Drawn(Enum):
    """What each seed may draw of a fleet by itself."""

    SET = "set"
    LOOKAHEAD = "lookahead"
    OUTER = "outer"
    HEADS = "heads"
    REVISIONS = "revisions"
    ENDS = "ends"


LOOKAHEAD_SHARE, NESTEROV_SHARE, TWO_REVISIONS_SHARE = 0.25, 0.25, 0.15
STEPS_SHARE, EXTENDED_SHARE, TARGET_SHARE = 0.25, 0.25, 0.2
REVISIONS_MOST = 2


@dataclass(frozen=True, slots=True)
class ValidatorSet:
    weights: tuple[int, ...]
    quorum: int


SETS = (
    (ValidatorSet((1,), 1), 2),
    (ValidatorSet((1, 1), 2), 1),
    (ValidatorSet((2, 1), 2), 1),
    (ValidatorSet((1, 1, 1), 2), 5),
    (ValidatorSet((2, 1, 1), 3), 2),
    (ValidatorSet((1, 1, 1, 1), 3), 3),
    (ValidatorSet((1, 2, 2, 3), 6), 2),
    (ValidatorSet((1, 1, 1, 1, 1), 4), 1),
    (ValidatorSet((3, 1, 1, 2, 2), 7), 1),
    (ValidatorSet((1, 1, 1, 1, 1, 1, 1), 5), 1),
    (ValidatorSet((1, 1, 1, 2, 2, 2, 3), 9), 1),
)
"""Those that a seed draws from, and how many tickets each has: large ones take long."""
SMALL = 4
"""A larger set of validators has fewer trainers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    validators: int = 3
    quorum: int = 2
    weights: tuple[int, ...] = ()
    """Of the validators; all weigh 1 if there are none."""
    drawn: frozenset[Drawn] = frozenset()
    """What each seed draws, in place of what is said here."""
    trainers: int = 3
    reducers: int = 1
    windows: int = 10
    faults: FaultSet = FaultSet.ALL
    broken: Break | None = None
    outer: OuterRule = PLAIN_MEAN
    heads: Heads = Heads.AS_MERGED
    lookahead: int = 0
    reconcile: str = "rebase"
    max_roster: int = 16
    sharded: bool = False
    """The data come with the leases, from the seed and from each other."""
    revisions: int = 1
    """Two: validators and the seed serve both, each worker one of them."""
    ends: RunEnds = RunEnds.HEADS
    liars: tuple[tuple[str, Lie], ...] = ()
    """Names of nodes, and what each does wrong."""
    doubts: float = 0.0
    """How often a validator's own samples reject a head that others accept."""
    power_cuts: float = 0.0
    """How often a validator loses its power as soon as it has sent a vote."""
    new_term_s: float = 0.0
    """When the authority begins a new term, which abandons all decisions so far; 0: never."""
    without: tuple[str, ...] = ()
    """Nodes that never start: what remains of a fleet when its failure is made smaller."""
    only: tuple[int, ...] | None = None
    """Of the faults that were drawn, by their place: those that happen; None for all of them."""

    def attacked(self, broken: Break) -> "FleetShape":
        """The same with a defence switched off, and with those who know how to use that."""
        attack = ATTACKS[broken]
        return replace(
            self,
            broken=broken,
            drawn=frozenset(),
            weights=(),
            validators=attack.validators,
            quorum=attack.quorum,
            liars=attack.liars,
            doubts=attack.doubts,
            power_cuts=attack.power_cuts,
            new_term_s=attack.new_term_s,
        )

    def of_seed(self, seed: int) -> "FleetShape":
        """With what this seed draws: the validators, how they work, and who of all nodes lies."""
        shape = _with_work(self, seed)
        if Drawn.SET in self.drawn:
            shape = _with_set(shape, seed)
        if shape.liars or shape.broken is not None or not shape.faults.has(FaultSet.LIARS):
            return shape
        names = shape.names()
        weights = {name: shape.weight_of(name) for name in names if name.startswith("validator")}
        bound = Thresholds(sum(weights.values()), shape.quorum)
        spare = min(bound.lying_max, bound.crashed_max)
        honest = [f"trainer{n + 1}" for n in range(shape.revisions)]
        workers = [
            name for name in names if name.startswith(("reducer", "trainer")) and name not in honest
        ]
        return replace(shape, liars=draw_liars(seed, weights, spare, workers))

    def weight_of(self, name: str) -> int:
        return self.weights[int(name.removeprefix("validator")) - 1] if self.weights else 1

    def vital(self) -> tuple[str, ...]:
        """Validators whose lie alone, beside those of the liars, could split the network."""
        names = [f"validator{n}" for n in range(1, self.validators + 1)]
        bound = Thresholds(sum(map(self.weight_of, names)), self.quorum).lying_max
        bound -= sum(self.weight_of(name) for name, _ in self.liars if name in names)
        return tuple(name for name in names if self.weight_of(name) > bound)

    def needed(self) -> tuple[str, ...]:
        """Validators without which, beside the liars, there is no quorum.

        One that finds votes of its own that it does not remember is silent for that height; one that decides alone has
        its votes nowhere else.
        """
        names = [f"validator{n}" for n in range(1, self.validators + 1)]
        bound = Thresholds(sum(map(self.weight_of, names)), self.quorum).crashed_max
        bound -= sum(self.weight_of(name) for name, _ in self.liars if name in names)
        return tuple(name for name in names if self.weight_of(name) > bound)

    def schedule(self, seed: int) -> tuple[Fault, ...]:
        """The faults of one seed, all of them: those that are left out keep their places."""
        if self.faults is FaultSet.NONE:
            return ()
        named = Named(self.names(), self.vital(), self.needed())
        return draw_faults(seed, named, self.faults, until_s=FAULTS_END_S)

    def served_by(self, name: str) -> frozenset[int]:
        """The revisions that a node serves; a trainer works on one at a time."""
        kind, number = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        if self.revisions == 1 or kind in ("seed", "validator"):
            return frozenset(range(self.revisions))
        return frozenset({(number - 1) % 2 if kind == "trainer" else number % 2})

    def windows_of(self, revision: int) -> int:
        """Further ones are shorter: both must live, and go apart, and a fleet costs about the same."""
        return self.windows if revision == 0 else max(1, self.windows // 2)

    def end_of(self, revision: int) -> int:
        """After how many heads a revision says that it ends."""
        windows = self.windows_of(revision)
        return max(1, windows // 2) if self.ends is RunEnds.EXTENDED else windows

    def names(self) -> tuple[str, ...]:
        return (
            "seed1",
            *(f"validator{n}" for n in range(1, self.validators + 1)),
            *(f"reducer{n}" for n in range(1, self.reducers + 1)),
            *(f"trainer{n}" for n in range(1, self.trainers + 1)),
            "viewer1",
        )


def _with_work(shape: FleetShape, seed: int) -> FleetShape:
    dice = Random(f"{seed}/work")
    ahead, nesterov, two = (dice.random() for _ in range(3))
    reconcile = dice.choice(RECONCILE)
    steps, ends = dice.random(), dice.random()
    drawn, shape = shape.drawn, replace(shape, drawn=shape.drawn & {Drawn.SET})
    if Drawn.LOOKAHEAD in drawn:
        shape = replace(shape, lookahead=int(ahead < LOOKAHEAD_SHARE), reconcile=reconcile)
    if Drawn.OUTER in drawn:
        outer = Outer.NESTEROV if nesterov < NESTEROV_SHARE else Outer.MEAN
        shape = replace(shape, outer=outer.rule)
    if Drawn.HEADS in drawn:
        heads = Heads.IN_STEPS if steps < STEPS_SHARE else Heads.AS_MERGED
        shape = replace(shape, heads=heads)
    if Drawn.REVISIONS in drawn:
        shape = replace(shape, revisions=2 if two < TWO_REVISIONS_SHARE else 1)
    if Drawn.ENDS in drawn:
        late = RunEnds.TARGET if ends < EXTENDED_SHARE + TARGET_SHARE else RunEnds.HEADS
        shape = replace(shape, ends=RunEnds.EXTENDED if ends < EXTENDED_SHARE else late)
    return shape


def _with_set(shape: FleetShape, seed: int) -> FleetShape:
    dice = Random(f"{seed}/set")
    chosen: ValidatorSet = dice.choices([one for one, _ in SETS], [n for _, n in SETS])[0]
    count = len(chosen.weights)
    return replace(
        shape,
        drawn=frozenset(),
        validators=count,
        quorum=chosen.quorum,
        weights=chosen.weights,
        trainers=shape.trainers if count <= SMALL else shape.trainers - 1,
    )
