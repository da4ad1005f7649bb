"""A quorum that comes whole with its closure is judged on the votes in it, not on the votes held.

Source: docs/decision-protocol.md, section 3.
"""

from collections.abc import Iterable, Sequence

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.members import Members
from p2pd.errors import RemoteError

VOTE = "vote"
"""The kind under which a vote is signed."""


def one_prevote_each(
    members: Members, scope: Scope, value: DecisionId, votes: Sequence[Signed[Vote]]
) -> None:
    """Checks that votes are prevotes of members for value, at most one per key and round.

    Raises:
        RemoteError: they are not.
    """
    seen = set()
    for signed in votes:
        vote = signed.content
        if signed.scope != scope or signed.kind != VOTE or signed.author not in members.weights:
            raise RemoteError("a carried prevote is not of a member, for this height")
        if vote.step != Step.PREVOTE or vote.value != value:
            raise RemoteError("a carried vote is not a prevote for the decision")
        place = (signed.author, vote.round)
        if place in seen:
            raise RemoteError("a key has two carried prevotes in one round")
        seen.add(place)


def quorate_rounds(members: Members, prevotes: Iterable[Signed[Vote]]) -> set[int]:
    """Rounds in which prevotes for one value reach the quorum, justified by earlier such rounds.

    At most one prevote per key and round.
    """
    by_round: dict[int, list[Signed[Vote]]] = {}
    for signed in prevotes:
        by_round.setdefault(signed.content.round, []).append(signed)
    quorate = {NO_ROUND}
    for round_ in sorted(by_round):
        weight = sum(
            members.weights[signed.author]
            for signed in by_round[round_]
            if signed.content.just in quorate
        )
        if weight >= members.quorum:
            quorate.add(round_)
    return quorate - {NO_ROUND}
