"""What linked nodes say to each other besides signed objects.

A control message or a request is one tag byte and the canonical encoding of the dataclass that goes with the tag.
None of these is signed: the link is authenticated, and all that is believed is verified by its content.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TypeVar

from p2pd.core.encoding import MAX_BYTES, decode, encode
from p2pd.core.governance import RecordId
from p2pd.core.ids import ArtifactId, DecisionId, ObjectId, RevisionId
from p2pd.core.voting import exchange
from p2pd.errors import RemoteError

T = TypeVar("T")

REMEMBERED = 512
REMEMBERED_BYTES = 2 * 1024
"""What is flooded comes from each neighbour in the same bytes: small messages are decoded once."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Control: signed objects, flooded."""

    envelopes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Tip:
    """Control: the height that this node has adopted; sent on connecting, on adopting, and now and then."""

    revision: RevisionId
    height: int
    decision: DecisionId


@dataclass(frozen=True, slots=True)
class Decided:
    """Control: what this node has just adopted, for a neighbour that follows; in place of the Tip."""

    revision: RevisionId
    height: int
    decision: DecisionId
    record: bytes


@dataclass(frozen=True, slots=True)
class Inventory:
    """Control: the objects of open heights that this node holds; the receiver sends what is missing."""

    revision: RevisionId
    height: int
    objects: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class GovernanceTip:
    """Control: the last governance record that this node holds."""

    number: int
    record: RecordId


@dataclass(frozen=True, slots=True)
class GetGovernance:
    """Request: answered with the encoded signed governance Records after a number, as many as fit."""

    after: int


class Purpose(IntEnum):
    """Why a validator says what it holds."""

    TELL = 0
    ASK = 1
    """It listens before it votes: the receiver sends what is missing, and then an answer."""
    ANSWER = 2


@dataclass(frozen=True, slots=True)
class Holdings:
    """Control, between validators: the votes of the rounds in play that this one holds."""

    revision: RevisionId
    height: int
    votes: exchange.Inventory
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class GetManifest:
    """Request: answered with the encoded manifest."""

    artifact: ArtifactId


@dataclass(frozen=True, slots=True)
class GetChunk:
    """Request: answered with the bytes of one chunk."""

    artifact: ArtifactId
    index: int


@dataclass(frozen=True, slots=True)
class GetHeld:
    """Request: answered with a bit for each chunk of an artifact that the other holds."""

    artifact: ArtifactId


@dataclass(frozen=True, slots=True)
class GetRecords:
    """Request: answered with the encoded Records after a height, as many as fit."""

    revision: RevisionId
    after: int


@dataclass(frozen=True, slots=True)
class GetFarthest:
    """Request: answered with the encoded Records of one: the farthest decision that who knows a height can check."""

    revision: RevisionId
    after: int


@dataclass(frozen=True, slots=True)
class Records:
    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class GetChoices:
    """Request: answered with the encoded choices from which a decision derives that is not certified yet."""

    revision: RevisionId
    value: DecisionId


@dataclass(frozen=True, slots=True)
class GetPeers:
    """Request: answered with the encoded Peers."""

    most: int


@dataclass(frozen=True, slots=True)
class Peers:
    now_ms: int
    """The wall clock of who answers: a hint, believed of nobody alone."""
    envelopes: tuple[bytes, ...]
    """Signed peer records."""


@dataclass(frozen=True, slots=True)
class GetRevision:
    """Request: answered with the encoded signed revision record."""

    revision: RevisionId


Talk = (
    Objects
    | Tip
    | Decided
    | Inventory
    | Holdings
    | GovernanceTip
    | GetManifest
    | GetChunk
    | GetHeld
    | GetRecords
    | GetFarthest
    | GetPeers
    | GetRevision
    | GetChoices
    | GetGovernance
)

_TAGS: dict[int, type[Talk]] = {
    1: Objects,
    2: Tip,
    3: Inventory,
    4: Holdings,
    5: Decided,
    6: GovernanceTip,
    16: GetManifest,
    17: GetChunk,
    18: GetRecords,
    19: GetPeers,
    20: GetRevision,
    21: GetChoices,
    22: GetHeld,
    23: GetFarthest,
    24: GetGovernance,
}
_NUMBERS: dict[type, int] = {kind: tag for tag, kind in _TAGS.items()}


def dump_talk(message: Talk) -> bytes:
    return bytes([_NUMBERS[type(message)]]) + encode(message)


def load_talk(data: bytes, *, limit_bytes: int = MAX_BYTES) -> Talk:
    """Raises RemoteError: unknown tag, or not the dataclass that goes with it."""
    small = len(data) <= min(limit_bytes, REMEMBERED_BYTES)
    return _remembered(data) if small else _load_talk(data, limit_bytes)


def _load_talk(data: bytes, limit_bytes: int) -> Talk:
    kind = _TAGS.get(data[0]) if data else None
    if kind is None:
        raise RemoteError(f"unknown message tag {data[:1].hex() or 'none'}")
    return decode(kind, data[1:], limit_bytes=limit_bytes)


@lru_cache(maxsize=REMEMBERED)
def _remembered(data: bytes) -> Talk:
    return _load_talk(data, REMEMBERED_BYTES)
