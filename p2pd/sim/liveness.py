"""How long a fleet may take to its next certificate once nothing goes wrong any more. Virtual seconds."""

from dataclasses import dataclass, field

from p2pd.core.ids import NetworkId
from p2pd.core.revision import Schedule
from p2pd.core.voting.timers import PROPOSE_MAX_S, propose_timeout_s
from p2pd.node.discovery import DiscoverySettings
from p2pd.node.lane import RECONCILE_MOST_S
from p2pd.sim.clock import SKEW_MOST
from p2pd.sim.ends import IDLE_S
from p2pd.sim.lives import RESTART_S


def certificate_within_s(schedule: Schedule) -> float:
    """The time after the last fault in which some height ends, and after each decision the next.

    Each part at its longest, one after the other: a node that has just ended starts again; links that
    died unseen are found dead, and dialled after the longest back-off; what a restarted validator listens
    for comes with the slowest reconciliation; the window lasts until its deadline; one round is under way
    that comes to nothing, one succeeds. All that by the slowest clock.
    """
    dialling = DiscoverySettings(network=NetworkId(b""), roles=())
    links_s = IDLE_S + dialling.backoff_most_s + dialling.dial_s
    listening_s = RECONCILE_MOST_S + propose_timeout_s(0)
    check_s = schedule.check_limit_ms / 1000
    round_s = PROPOSE_MAX_S + check_s + max(PROPOSE_MAX_S, check_s) + PROPOSE_MAX_S
    total_s = RESTART_S + links_s + listening_s + schedule.deadline_ms / 1000 + 2 * round_s
    return total_s / (1.0 - SKEW_MOST)


HEADLESS_MOST = 40
"""Decisions in a row that may leave the head as it is, once nothing goes wrong: trainers fail now and then, liars
spoil a window. It is no bound on time, of which a canary that blocks whatever comes takes none."""
SPOILT_MOST = 10
"""The same where a trainer's updates spoil each merge and nobody screens them: that the canary keeps the head is all
that can be asked for, and so many decisions show it."""


@dataclass(slots=True)
class Pulse:
    """Looks again and again whether anything was decided, and whether it moves the head."""

    faults_end_s: float
    schedule: Schedule
    spoilt: bool = False
    """A trainer's updates may spoil each merge."""
    height: int = 0
    heads: int = 0
    head_height: int = 0
    """Of the decision that promoted the last one, or after which the faults ended."""
    since_s: float = 0.0
    longest_s: float = 0.0
    """Without a decision, after the last fault, and before all was done."""
    stalled: str = "no end in time"
    """Why it beats no more."""
    within_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.within_s = certificate_within_s(self.schedule)

    def beats(self, height: int, heads: int, now_s: float) -> bool:
        """False if it has taken too long. height: the highest decided by now, after so many heads."""
        waited_s = now_s - max(self.since_s, self.faults_end_s)
        if height > self.height:
            self.height, self.since_s = height, now_s
        if heads > self.heads or now_s < self.faults_end_s:
            self.heads, self.head_height = heads, height
        self.longest_s = max(self.longest_s, waited_s)
        if waited_s > self.within_s:
            self.stalled = f"no end, nothing decided in {self.within_s:g} s"
            return False
        if not self.spoilt and height - self.head_height > HEADLESS_MOST:
            self.stalled = f"no end, no head promoted in {HEADLESS_MOST} decisions"
            return False
        return True

    def is_held(self, height: int) -> bool:
        """The canary has kept the head long enough from what spoils it."""
        return self.spoilt and height - self.head_height > SPOILT_MOST
