"""What the voting machine is told, and what it asks for. Times are seconds.

Source: docs/decision-protocol.md, section 4.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum

from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.signed import Signed
from p2pd.core.votes import Certificate, Reason, Step, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal


class Judgement(IntEnum):
    """What a validator thinks where honest validators may differ."""

    ACCEPT = 0
    UNSURE = 1
    """Agrees with either."""
    REJECT = 2


class Defence(Enum):
    """A rule that tests and the simulator switch off, to show what it is for."""

    LOCK = "lock"
    COUNTING = "counting"
    JUDGEMENT = "judgement"
    LEASE = "lease"
    """An update claims no more than its lease holds."""
    REPLAY = "replay"
    """An update is for the window that it is counted in."""
    EARLY = "early"
    """A proposal is held until one's own window is over."""
    EVIDENCE = "evidence"
    """Who is caught lying is suspended."""


# Events


@dataclass(frozen=True, slots=True)
class Close:
    """The window of this height is over by the validator's own conditions."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """An earlier life may have voted at this height: listen before the first vote. The first event then."""


@dataclass(frozen=True, slots=True)
class PeerHeard:
    """A validator has said what it holds of this height, after it sent what this one lacked of it."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class ProposalSeen:
    proposal: Signed[Proposal]


@dataclass(frozen=True, slots=True)
class VoteSeen:
    vote: Signed[Vote]


@dataclass(frozen=True, slots=True)
class CertificateSeen:
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Built:
    """Answers Build."""

    round: int
    choices: bytes


@dataclass(frozen=True, slots=True)
class Checked:
    """Answers Check, however late; a second answer replaces the first."""

    choices: bytes
    value: DecisionId | None
    """None where no decision could be derived, as when what it names could not be fetched in time.

    That refuses a fresh proposal. One with a quorum is waited for, until its timer.
    """
    objective: bool
    judgement: Judgement
    reasons: tuple[Reason, ...]
    """To put beside a prevote for nil; the first 32 count."""


@dataclass(frozen=True, slots=True)
class BodyChecked:
    """Answers FetchValue: the choices from which value derives, fetched and checked."""

    value: DecisionId
    choices: bytes
    objective: bool


Event = (
    Close
    | Resumed
    | PeerHeard
    | ProposalSeen
    | VoteSeen
    | CertificateSeen
    | Built
    | Checked
    | BodyChecked
)

# Effects


@dataclass(frozen=True, slots=True)
class Persist:
    """Replace the stored state of this height, durably, before carrying out what follows."""

    state: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Tell every validator. A new message follows its Persist directly."""

    message: Signed[Vote] | Signed[Proposal]


@dataclass(frozen=True, slots=True)
class Build:
    """Make fresh choices for a round, and answer Built."""

    round: int


@dataclass(frozen=True, slots=True)
class Check:
    """Fetch what the choices name, derive the decision, check it, answer Checked. Newest first."""

    choices: bytes
    proposal: Signed[Proposal]


@dataclass(frozen=True, slots=True)
class FetchValue:
    """A quorum prevoted what was not derived here: fetch its choices, check, answer BodyChecked.

    Choices that a Check already works on need no second one: Checked for them is an answer too.
    """

    value: DecisionId
    holders: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome, said once: fetch the body, check it objectively, adopt it. Voting is over."""

    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Forked:
    """Two decisions of this height are certified: stop adopting, keep both, wait for a new term."""

    first: Certificate
    second: Certificate


@dataclass(frozen=True, slots=True)
class Accuse:
    """Said at most once per key."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Closed:
    """The others' messages closed the height before its own conditions did."""


@dataclass(frozen=True, slots=True)
class RoundStarted:
    round: int


@dataclass(frozen=True, slots=True)
class ForeignVote:
    """My key signed, while I was voting, what I have no memory of: another node has it."""

    message: Signed[Vote] | Signed[Proposal]


Effect = (
    Persist
    | Send
    | Build
    | Check
    | FetchValue
    | Decided
    | Forked
    | Accuse
    | Closed
    | RoundStarted
    | ForeignVote
)


@dataclass(frozen=True, slots=True)
class Objection:
    """A prevote for nil that says why."""

    peer: PeerId
    weight: int
    round: int
    reasons: tuple[Reason, ...]
    vote: Signed[Vote]


@dataclass(frozen=True, slots=True)
class View:
    """Where a height stands, for people."""

    height: int
    round: int
    step: Step
    proposer: PeerId
    closed: bool
    listening: bool
    muted: bool
    """My key voted without me here, so I do not."""
    locked: tuple[DecisionId, int] | None
    """With the round."""
    valid: tuple[DecisionId, int] | None
    prevoted: int
    """Weight heard in this round."""
    precommitted: int
    quorum: int
    silent: tuple[PeerId, ...]
    """Members not heard in this round."""
    decided: DecisionId | None
