"""What goes wrong in a simulated height: the plan of its faults, and the validator that lies."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2pd.core.ids import DecisionId, PublicKey
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.events import Defence
from p2pd.core.voting.proposals import PROPOSAL, Proposal
from p2pd.core.voting.quorums import VOTE
from tests.core.voting.making import Signer, value_of

if TYPE_CHECKING:
    from tests.core.voting.simulation import Simulation

GONE = b"gone"
"""Choices that begin so can never be fetched."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What happens in a run. The last member is the liar, if there is one."""

    count: int
    quorum: int
    weights: tuple[int, ...] = ()
    """Ascending by peer id; empty: 1 each."""
    liar: str | None = None
    """silent | nil | gone | bad-pol | chaos."""
    crashes: int = 0
    restarts: int = 0
    check_s: tuple[float, float] = (0.1, 0.3)
    recent_s: float | None = None
    """What earlier checks took; None: there were none."""
    check_limit_s: float = 60.0
    rejects: float = 0.0
    """How often a validator rejects somebody else's choices."""
    closing_s: float = 2.0
    """Within so long all close the height."""
    calm_s: float | None = None
    """From then on nothing is lost; None: drawn."""
    loss: float = 0.5
    isolated_s: float = 0.0
    """The first validator hears nothing until so long after the calm."""
    proposals_lost: bool = False
    """All of them, until the calm."""
    late_crash: bool = False
    patience_s: float = 900.0
    off: frozenset[Defence] = frozenset()


@dataclass
class Liar:
    simulation: "Simulation"
    key: PublicKey
    bodies: dict[DecisionId, bytes] = field(default_factory=dict)
    done: set[tuple[str, int]] = field(default_factory=set)

    def act(self) -> None:
        simulation = self.simulation
        rounds = [node.machine.view().round for node in simulation.nodes]
        for round_ in range(max(0, max(rounds) - 1), max(rounds) + 1):
            proposer = simulation.members.proposer(simulation.scope.height, round_)
            if proposer.key == self.key and self.once("proposal", round_):
                self.propose(round_)
            if simulation.plan.liar == "nil" and self.once("nil", round_):
                for step in (Step.PREVOTE, Step.PRECOMMIT):
                    self.say(Vote(step, round_, None, NO_ROUND, ()))
        if simulation.plan.liar == "chaos" and simulation.now_s < simulation.calm_s + 20:
            self.confuse(max(rounds))
        simulation.at(0.25, self.act)

    def once(self, what: str, round_: int) -> bool:
        fresh = (what, round_) not in self.done
        self.done.add((what, round_))
        return fresh

    def say(self, vote: Vote) -> None:
        signed = Signer(self.key)(VOTE, self.simulation.scope, vote)
        self.simulation.broadcast(self.key, signed)

    def propose(self, round_: int) -> None:
        simulation, name = self.simulation, b"%d by liar" % round_
        sign = Signer(self.key)
        if simulation.plan.liar == "bad-pol" and round_ > 0:
            vote = Vote(Step.PREVOTE, round_ - 1, value_of(GONE + name), NO_ROUND, ())
            backing = (sign(VOTE, simulation.scope, vote),)
            content = Proposal(round_, round_ - 1, GONE + name, backing)
            simulation.broadcast(self.key, sign(PROPOSAL, simulation.scope, content))
        elif simulation.plan.liar in ("gone", "bad-pol"):
            content = Proposal(round_, NO_ROUND, GONE + name, ())
            simulation.broadcast(self.key, sign(PROPOSAL, simulation.scope, content))
        elif simulation.plan.liar == "chaos":
            for number in range(2):
                choices = b"choices %d of " % number + name
                self.bodies[value_of(choices)] = choices
                content = Proposal(round_, NO_ROUND, choices, ())
                for node in simulation.nodes:
                    if simulation.random.random() < 0.6:
                        signed = sign(PROPOSAL, simulation.scope, content)
                        simulation.send(self.key, node, signed)

    def confuse(self, highest: int) -> None:
        """To each validator another random vote, with a random just."""
        simulation, draw = self.simulation, self.simulation.random
        bodies = {value for node in simulation.nodes for value in node.bodies} | set(self.bodies)
        for node in simulation.nodes:
            round_ = draw.randrange(highest + 1)
            value = draw.choice([*sorted(bodies), None])
            step = draw.choice((Step.PREVOTE, Step.PREVOTE, Step.PRECOMMIT))
            just = NO_ROUND
            if step == Step.PREVOTE and value is not None:
                just = draw.randrange(-1, round_) if round_ else NO_ROUND
            vote = Vote(step, round_, value, just, ())
            simulation.send(self.key, node, Signer(self.key)(VOTE, simulation.scope, vote))
