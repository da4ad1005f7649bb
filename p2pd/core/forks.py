"""Two valid certificates of one height for different decisions: how they are told, and how they are looked for.

Source: docs/decision-protocol.md, section 9.
"""

from dataclasses import dataclass

from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting, members_hash
from p2pd.core.ids import PeerId, short
from p2pd.core.votes import Certificate
from p2pd.core.voting.box import Box
from p2pd.core.voting.certificate import check_certificate
from p2pd.core.voting.evidence import check_evidence
from p2pd.core.voting.members import Members
from p2pd.errors import RemoteError


@dataclass(frozen=True, slots=True)
class Fork:
    """Nobody can tell which of the two stands; the authority must say, by a new term."""

    height: int
    first: Certificate
    """Of the decision adopted here."""
    second: Certificate


def fork_of(setting: Setting, mine: Record, theirs: Record) -> Fork | None:
    """None unless a quorum of the set that signed mine stands behind another decision of that height."""
    height = mine.decision.height
    first, second = mine.certificate, theirs.certificate
    if first is None or second is None or theirs.decision.height != height:
        return None
    if second.value != theirs.decision.id or second.value == first.value:
        return None
    try:
        check_certificate(signers(setting, mine.decision), setting.scope(height), second)
    except RemoteError:
        return None
    return Fork(height, first, second)


def signers(setting: Setting, decision: Decision) -> Members:
    """The set that certified a decision: whom it suspends comes last, and still voted on it."""
    suspended = decision.state.suspended
    for count in range(len(suspended), -1, -1):
        if members_hash(setting.members(suspended[:count])) == decision.header.members:
            return setting.electorate(suspended[:count])
    raise RemoteError(f"height {decision.height}: names another validator set")


def named(setting: Setting, decision: Decision, fork: Fork) -> tuple[PeerId, ...]:
    """Who broke the rules, as the votes in the two certificates show; decision is the one adopted here."""
    members = signers(setting, decision)
    box = Box(members, setting.scope(fork.height))
    found = []
    for certificate in (fork.first, fork.second):
        for vote in (*certificate.prevotes, *certificate.precommits):
            evidence = box.add_vote(vote)
            guilty = check_evidence(members, evidence) if evidence else None
            found += [guilty] if guilty else []
    return tuple(sorted(found))


def told(fork: Fork, liars: tuple[PeerId, ...]) -> str:
    """For people."""
    names = ", ".join(map(short, liars)) or "nobody yet"
    return (
        f"height {fork.height} has two certified decisions, {short(fork.first.value)} and "
        f"{short(fork.second.value)} (validators that broke the rules: {names}): "
        "nothing is adopted until the authority begins a new term"
    )


class Split:
    """Looks for the first height at which a peer's chain is another than mine, by halves.

    Up to there both have the same validator sets, so that a certificate of theirs can be judged.
    """

    def __init__(self, top: int) -> None:
        """top: a height that both have."""
        self._same, self._other = 0, top + 1
        self._top = top

    @property
    def below(self) -> int:
        """Heights from here on need no comparison."""
        return self._other

    def next(self) -> int | None:
        """The height to compare next; None once no more comparison can tell anything."""
        if self._other > self._top:
            return self._top if self._same < self._top else None
        return (self._same + self._other) // 2 if self._other - self._same > 1 else None

    def compared(self, height: int, *, same: bool) -> None:
        if same:
            self._same = height
        else:
            self._other = height
