"""Whether a certificate holds. It stands whatever else its signers signed.

Source: docs/decision-protocol.md, section 3.
"""

from p2pd.core.signed import Scope
from p2pd.core.votes import Certificate, Step
from p2pd.core.voting.members import Members
from p2pd.core.voting.quorums import VOTE, one_prevote_each, quorate_rounds
from p2pd.errors import RemoteError


def check_certificate(members: Members, scope: Scope, certificate: Certificate) -> None:
    """Checks a certificate against the set of its height.

    Raises:
        RemoteError: it does not show that a quorum decided; the message says why.
    """
    where = f"certificate of height {scope.height}"
    seen = set()
    for signed in certificate.precommits:
        vote = signed.content
        if signed.scope != scope or signed.kind != VOTE or signed.author not in members.weights:
            raise RemoteError(f"{where}: a precommit is not of a member, for this height")
        if (vote.step, vote.round, vote.value) != (
            Step.PRECOMMIT,
            certificate.round,
            certificate.value,
        ):
            raise RemoteError(f"{where}: a vote is not a precommit for its decision and round")
        if signed.author in seen:
            raise RemoteError(f"{where}: a key has two precommits")
        seen.add(signed.author)
    weight = sum(members.weights[key] for key in seen)
    if weight < members.quorum:
        raise RemoteError(f"{where}: precommits weigh {weight}, the quorum is {members.quorum}")
    one_prevote_each(members, scope, certificate.value, certificate.prevotes)
    if certificate.round not in quorate_rounds(members, certificate.prevotes):
        raise RemoteError(f"{where}: its prevotes of round {certificate.round} are no quorum")
