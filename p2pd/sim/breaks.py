"""Defences that can be switched off, one at a time, to show that the checkers see the attack; and who attacks.

No configuration reaches any of them: the simulator hands its nodes another rule or another port.
"""

from dataclasses import dataclass
from enum import Enum

from p2pd.core.voting.events import Defence
from p2pd.sim.liars import Lie


class Break(Enum):
    """A defence that is switched off in all honest nodes."""

    QUORUM = "quorum"
    """Validators count a majority of the peers they happen to see."""
    LOCK = "lock"
    """Validators prevote whatever is proposed, precommitted or not."""
    COUNTING = "counting"
    """A vote counts whether or not the quorum that it claims exists."""
    JUDGEMENT = "judgement"
    """A canary that rejects refuses what others are locked on, too."""
    LEASE = "lease"
    """An update may claim more than its lease holds."""
    REPLAY = "replay"
    """An update of an older window counts again."""
    ARRIVAL = "arrival"
    """Updates are merged in the order in which they arrived."""
    DURABLE = "durable"
    """A vote is sent before it is durable."""
    EARLY = "early"
    """A proposal is voted on before one's own window is over."""
    SIGNATURES = "signatures"
    """What a proposal carries is taken without its signatures being checked."""
    TERM = "term"
    """What is signed says nothing of the term."""
    EVIDENCE = "evidence"
    """Who is caught lying stays a validator."""


RULES = {
    Break.LOCK: Defence.LOCK,
    Break.COUNTING: Defence.COUNTING,
    Break.JUDGEMENT: Defence.JUDGEMENT,
    Break.LEASE: Defence.LEASE,
    Break.REPLAY: Defence.REPLAY,
    Break.EARLY: Defence.EARLY,
    Break.EVIDENCE: Defence.EVIDENCE,
}
"""Rules of the core that a break switches off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """The fleet in which a missing defence shows."""

    validators: int = 3
    quorum: int = 2
    liars: tuple[tuple[str, Lie], ...] = ()
    doubts: float = 0.0
    """How often a validator's own samples reject a head that others accept."""
    power_cuts: float = 0.0
    """How often a validator loses its power as soon as it has sent a vote."""
    new_term_s: float = 0.0
    """When the authority begins a new term; 0: never."""


ATTACKS = {
    Break.QUORUM: Attack(),
    Break.LOCK: Attack(validators=4, quorum=3, liars=(("validator1", Lie.SPLIT),), doubts=0.3),
    Break.COUNTING: Attack(
        validators=4, quorum=3, liars=(("validator1", Lie.FALSE_JUST),), doubts=0.3
    ),
    Break.JUDGEMENT: Attack(
        validators=4, quorum=3, liars=(("validator1", Lie.DESERT),), doubts=0.3
    ),
    Break.LEASE: Attack(liars=(("trainer1", Lie.GREED),)),
    Break.REPLAY: Attack(validators=4, quorum=3, liars=(("validator1", Lie.REPEAT),)),
    Break.ARRIVAL: Attack(),
    Break.DURABLE: Attack(validators=2, quorum=2, power_cuts=0.1),
    Break.EARLY: Attack(validators=4, quorum=3, liars=(("validator1", Lie.HASTE),)),
    Break.SIGNATURES: Attack(validators=4, quorum=3, liars=(("validator1", Lie.FORGE),)),
    Break.TERM: Attack(
        validators=4, quorum=3, liars=(("validator1", Lie.REVENANT),), new_term_s=8.0
    ),
    Break.EVIDENCE: Attack(validators=4, quorum=3, liars=(("validator1", Lie.TWO_VOTES),)),
}
