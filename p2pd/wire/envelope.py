"""Bytes to signed objects and back. Past this module a Signed value has been verified, and all that is nested in it.

An envelope is the canonical encoding of Signed. Sizes are limited per kind before anything is decoded.
"""

from functools import lru_cache
from typing import Any, Protocol

from p2pd.core.encoding import decode
from p2pd.core.governance import SignedGovernance
from p2pd.core.hello import PeerRecord
from p2pd.core.ids import NetworkId, PublicKey
from p2pd.core.messages import Beacon, Choices, Leave, Reduction, Release, Report, Update
from p2pd.core.signed import Scope, Signed, T, message_of
from p2pd.core.votes import Certificate, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.errors import LocalError, RemoteError
from p2pd.wire.signatures import verify

KINDS: dict[str, tuple[type, int]] = {
    "vote": (Vote, 8 * 1024),
    "proposal": (Proposal, 1000 * 1024),
    "update": (Update, 2 * 1024),
    "beacon": (Beacon, 1024),
    "release": (Release, 4 * 1024),
    "leave": (Leave, 1024),
    "reduction": (Reduction, 256 * 1024),
    "report": (Report, 1024),
    "evidence": (Evidence, 1000 * 1024),
    "peer-record": (PeerRecord, 2 * 1024),
}
"""Content and largest envelope of each kind, bytes."""
_NAMES = {content: kind for kind, (content, _) in KINDS.items()}
MAX_ENVELOPE_BYTES = max(limit for _, limit in KINDS.values())
MAX_QUORUM_VOTES = 1024
"""In a proposal or a certificate: the votes of 128 validators in eight rounds. Each costs a verification."""
MAX_ENDORSEMENTS = 256
"""On one governance record; each costs a verification."""
MAX_CHOICES_SIGNED = 4096
"""Objects nested in choices: a full roster and its reducers, with room for grounds."""

REMEMBERED = 2048
REMEMBERED_BYTES = 4 * 1024
"""An object that is flooded comes from each neighbour: small ones are opened once. 30 MB at most."""
REMEMBERED_CHOICES = 16
REMEMBERED_CHOICES_BYTES = 128 * 1024
"""Choices are opened when they are proposed, each time they are proposed again, and when they are decided."""


class Signer(Protocol):
    @property
    def key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes: ...


def seal(signer: Signer, kind: str, scope: Scope, content: T) -> Signed[T]:
    """Signs content for one place."""
    if _NAMES.get(type(content)) != kind:
        raise LocalError(f"{type(content).__name__} is not the content of a {kind}")
    signature = signer.sign(message_of(kind, scope, signer.key, content))
    return Signed(kind, scope, signer.key, content, signature)


def dump(signed: Signed[Any]) -> bytes:
    return signed.encoded


def load(data: bytes, network: NetworkId) -> Signed[Any]:
    """The verified object in an envelope.

    Raises:
        RemoteError: malformed, too large for its kind, of another network, or a signature in it is false.
    """
    return (_remembered if len(data) <= REMEMBERED_BYTES else _load)(data, network)


def _load(data: bytes, network: NetworkId) -> Signed[Any]:
    kind = _kind_of(data)
    if kind not in KINDS:
        raise RemoteError(f"unknown kind of object {kind!r:.40}")
    content, limit_bytes = KINDS[kind]
    if len(data) > limit_bytes:
        raise RemoteError(f"{kind} of {len(data)} bytes exceeds the limit of {limit_bytes}")
    signed: Signed[Any] = decode(Signed[content], data)  # type: ignore[valid-type]
    check(signed, network)
    if isinstance(signed.content, Proposal):
        _check_votes(signed.content.quorum, network)
    elif isinstance(signed.content, Evidence):
        check_evidence(signed.content, network)
    return signed


_remembered = lru_cache(maxsize=REMEMBERED)(_load)


def _kind_of(data: bytes) -> str:
    """Read off the front of an envelope: an array of five, the first of which is a short text."""
    length = data[1] - 0x60 if len(data) > 1 and data[0] == 0x85 else 0
    return data[2 : 2 + length].decode(errors="replace") if 0 < length < 24 else ""


def check(signed: Signed[Any], network: NetworkId) -> None:
    """Raises RemoteError unless signed is its author's, for this network, of the kind that it says it is."""
    if _NAMES.get(type(signed.content)) != signed.kind:
        raise RemoteError(f"a {type(signed.content).__name__} signed as {signed.kind!r:.40}")
    if signed.scope.network != network:
        raise RemoteError(f"{signed.kind} of another network {signed.scope.network.hex()[:10]}")
    if not verify(signed.author, signed.message, signed.signature):
        raise RemoteError(f"false signature on a {signed.kind}")


def load_choices(data: bytes, network: NetworkId) -> Choices:
    """The choices in a proposal, all objects nested in them verified.

    Raises:
        RemoteError: as load.
    """
    small = len(data) <= REMEMBERED_CHOICES_BYTES
    return (_remembered_choices if small else _load_choices)(data, network)


def _load_choices(data: bytes, network: NetworkId) -> Choices:
    choices = decode(Choices, data, limit_bytes=MAX_ENVELOPE_BYTES)
    nested: tuple[Signed[Any], ...] = (
        *(candidate.update for candidate in choices.cohort),
        *choices.presence,
        *choices.reductions,
        *choices.grounds,
    )
    if len(nested) > MAX_CHOICES_SIGNED:
        raise RemoteError(f"{len(nested)} objects in choices, the limit is {MAX_CHOICES_SIGNED}")
    for signed in nested:
        check(signed, network)
    for evidence in choices.evidence:
        check_evidence(evidence, network)
    for record in choices.governance:
        check_governance(record, network)
    return choices


_remembered_choices = lru_cache(maxsize=REMEMBERED_CHOICES)(_load_choices)


def check_evidence(evidence: Evidence, network: NetworkId) -> None:
    pair: tuple[Signed[Any], ...] = evidence.votes or evidence.proposals
    for signed in pair:
        check(signed, network)
    for proposal in evidence.proposals:
        _check_votes(proposal.content.quorum, network)


def check_governance(signed: SignedGovernance, network: NetworkId) -> None:
    """Raises RemoteError where an endorsement is not its key's; whether they suffice is for core to say."""
    if signed.record.network != network:
        raise RemoteError("governance record of another network")
    if len(signed.endorsements) > MAX_ENDORSEMENTS:
        raise RemoteError(
            f"{len(signed.endorsements)} endorsements, the limit is {MAX_ENDORSEMENTS}"
        )
    for endorsement in signed.endorsements:
        if not verify(endorsement.key, signed.record.id, endorsement.signature):
            raise RemoteError("false signature on a governance record")


def check_certificate_signatures(certificate: Certificate, network: NetworkId) -> None:
    """Raises RemoteError where a vote in it is not its author's; whether they suffice is for core to say."""
    _check_votes((*certificate.precommits, *certificate.prevotes), network)


def _check_votes(votes: tuple[Signed[Vote], ...], network: NetworkId) -> None:
    if len(votes) > MAX_QUORUM_VOTES:
        raise RemoteError(f"{len(votes)} votes, the limit is {MAX_QUORUM_VOTES}")
    for vote in votes:
        check(vote, network)
