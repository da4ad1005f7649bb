"""A decision before it is certified: what a validator that voted for it serves to those that lack it."""

from dataclasses import dataclass

from p2pd.core.decision import Decision, Header
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import DecisionId, digest, short
from p2pd.errors import RemoteError


@dataclass(frozen=True, slots=True)
class Body:
    header: Header
    """Hashes to the value that was voted on, and binds the choices to it."""
    choices: bytes


def dump_body(decision: Decision) -> bytes:
    return encode(Body(decision.header, decision.choices))


def load_body(data: bytes, value: DecisionId, *, limit_bytes: int) -> bytes:
    """The choices behind value.

    Raises:
        RemoteError: malformed, or the choices are not those that were voted on.
    """
    body = decode(Body, data, limit_bytes=limit_bytes)
    if body.header.id != value or body.header.choices != digest("choices", body.choices):
        raise RemoteError(f"these are not the choices behind {short(value)}")
    return body.choices
