"""Names of things: 32-byte SHA-256 values, separated by what they name.

An id is the hash of the canonical encoding of its object, under the object's type.
"""

from hashlib import sha256
from typing import NewType

PeerId = NewType("PeerId", bytes)
"""Hash of a node's public key."""
PublicKey = NewType("PublicKey", bytes)
"""Ed25519, 32 bytes."""
NetworkId = NewType("NetworkId", bytes)
RevisionId = NewType("RevisionId", bytes)
TermId = NewType("TermId", bytes)
"""Hash of the record that began the term; the network id for the first one."""
DecisionId = NewType("DecisionId", bytes)
UpdateId = NewType("UpdateId", bytes)
ArtifactId = NewType("ArtifactId", bytes)
"""Hash of an artifact's manifest."""
ObjectId = NewType("ObjectId", bytes)
"""Hash of a signed object, its signature left out."""

ID_BYTES = 32
SHORT_HEX = 10


def digest(kind: str, data: bytes) -> bytes:
    """SHA-256 of data, in the domain of one type of object."""
    return sha256(b"p2pd/1/" + kind.encode() + b"\0" + data).digest()


def peer_id(key: PublicKey) -> PeerId:
    return PeerId(digest("peer", key))


def short(identifier: bytes) -> str:
    """The first ten hex digits: enough to tell a few thousand apart on a screen."""
    return identifier.hex()[:SHORT_HEX]
