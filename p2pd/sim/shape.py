"""What a simulated fleet consists of, and what befalls it."""

from dataclasses import dataclass, replace
from random import Random

from p2pd.core.voting.thresholds import Thresholds
from p2pd.core.work import MILLION, OuterRule
from p2pd.sim.breaks import ATTACKS, Break
from p2pd.sim.drawing import Named, draw_faults
from p2pd.sim.faults import Fault, FaultSet
from p2pd.sim.liars import Lie, draw_liars

FAULTS_END_S = 90.0
PLAIN_MEAN = OuterRule("mean", MILLION, 0)


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
    drawn: bool = False
    """Each seed draws its own set of validators, in place of these."""
    trainers: int = 3
    reducers: int = 1
    windows: int = 10
    faults: FaultSet = FaultSet.ALL
    broken: Break | None = None
    outer: OuterRule = PLAIN_MEAN
    lookahead: int = 0
    reconcile: str = "rebase"
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
            drawn=False,
            weights=(),
            validators=attack.validators,
            quorum=attack.quorum,
            liars=attack.liars,
            doubts=attack.doubts,
            power_cuts=attack.power_cuts,
            new_term_s=attack.new_term_s,
        )

    def of_seed(self, seed: int) -> "FleetShape":
        """With what this seed draws: the validators, and who of all nodes lies."""
        shape = self._with_set(seed) if self.drawn else self
        if shape.liars or shape.broken is not None or not shape.faults.has(FaultSet.LIARS):
            return shape
        names = shape.names()
        weights = {name: shape.weight_of(name) for name in names if name.startswith("validator")}
        bound = Thresholds(sum(weights.values()), shape.quorum)
        spare = min(bound.lying_max, bound.crashed_max)
        workers = [name for name in names if name.startswith(("reducer", "trainer"))]
        return replace(shape, liars=draw_liars(seed, weights, spare, workers))

    def _with_set(self, seed: int) -> "FleetShape":
        dice = Random(f"{seed}/set")
        chosen: ValidatorSet = dice.choices([one for one, _ in SETS], [n for _, n in SETS])[0]
        count = len(chosen.weights)
        return replace(
            self,
            drawn=False,
            validators=count,
            quorum=chosen.quorum,
            weights=chosen.weights,
            trainers=self.trainers if count <= SMALL else self.trainers - 1,
        )

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

    def names(self) -> tuple[str, ...]:
        return (
            "seed1",
            *(f"validator{n}" for n in range(1, self.validators + 1)),
            *(f"reducer{n}" for n in range(1, self.reducers + 1)),
            *(f"trainer{n}" for n in range(1, self.trainers + 1)),
            "viewer1",
        )
