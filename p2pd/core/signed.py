"""A protocol object with its author's signature over all that gives it meaning.

Values of this type exist only where the signature was checked: p2pd.wire makes them from bytes, and from a key.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from p2pd.core.encoding import encode
from p2pd.core.hello import PROTOCOL_VERSION
from p2pd.core.ids import (
    NetworkId,
    ObjectId,
    PeerId,
    PublicKey,
    RevisionId,
    TermId,
    digest,
    peer_id,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an object belongs. A signature for one place is worth nothing in another."""

    network: NetworkId
    term: TermId
    experiment: str
    revision: RevisionId
    height: int


@dataclass(frozen=True)
class Signed(Generic[T]):
    kind: str
    scope: Scope
    author: PublicKey
    content: T
    signature: bytes

    @cached_property
    def id(self) -> ObjectId:
        return ObjectId(digest(self.kind, self.message))

    @cached_property
    def message(self) -> bytes:
        """What the signature is over."""
        return message_of(self.kind, self.scope, self.author, self.content)

    @cached_property
    def encoded(self) -> bytes:
        """Its envelope."""
        return encode(self)

    @cached_property
    def signer(self) -> PeerId:
        return peer_id(self.author)


def message_of(kind: str, scope: Scope, author: PublicKey, content: object) -> bytes:
    return encode(("p2pd", PROTOCOL_VERSION, kind, scope, author, content))
