"""The signed birth record of a network: who governs it and whose votes count."""

from dataclasses import dataclass
from functools import cached_property

from p2pd.core.encoding import encode
from p2pd.core.ids import NetworkId, PublicKey, digest
from p2pd.core.wording import counted

KEY_BYTES = 32
MAX_VALIDATORS = 128
"""A certificate carries two votes of a quorum or more, each verified by everyone."""
ADMISSIONS = ("open",)
"""Who may train or reduce. Under `open` any key may; validators are always named."""


NAME_CHARACTERS = 64


def is_name(text: str) -> bool:
    """What people are shown as a name: printable, and not blank at either end."""
    return 0 < len(text) <= NAME_CHARACTERS and text.isprintable() and text == text.strip()


@dataclass(frozen=True, slots=True)
class Seat:
    """One validator."""

    key: PublicKey
    weight: int


@dataclass(frozen=True)
class Genesis:
    name: str
    nonce: bytes
    """16 random bytes, so that two networks of one name and one authority differ."""
    authority: tuple[PublicKey, ...]
    threshold: int
    """How many authority keys a governance record needs; more than half."""
    validators: tuple[Seat, ...]
    quorum: int
    """The weight that decides; more than half of all weight."""
    admission: str

    def __post_init__(self) -> None:
        keys = [*self.authority, *(seat.key for seat in self.validators)]
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError("a public key has 32 bytes")
        if not is_name(self.name):
            raise ValueError("name must have 1 to 64 printable characters")
        if self.admission not in ADMISSIONS:
            raise ValueError(f"admission {self.admission!r} is not supported; only open is")
        _check_threshold(self.authority, self.threshold)
        _check_seats(self.validators, self.quorum)

    @cached_property
    def network(self) -> NetworkId:
        """What the authority signs, and the name of the network."""
        return NetworkId(digest("genesis", encode(self)))

    @property
    def weight(self) -> int:
        return sum(seat.weight for seat in self.validators)


def _check_threshold(authority: tuple[PublicKey, ...], threshold: int) -> None:
    if not authority or len(set(authority)) != len(authority):
        raise ValueError("authority must name at least one key, each once")
    if not len(authority) < 2 * threshold <= 2 * len(authority):
        raise ValueError(
            f"threshold must be more than half of {counted(len(authority), 'authority key')}, got {threshold}"
        )


def _check_seats(seats: tuple[Seat, ...], quorum: int) -> None:
    if not seats or len({seat.key for seat in seats}) != len(seats):
        raise ValueError("validators must name at least one key, each once")
    if len(seats) > MAX_VALIDATORS:
        raise ValueError(f"at most {MAX_VALIDATORS} validators, got {len(seats)}")
    if any(not 1 <= seat.weight <= 2**20 for seat in seats):
        raise ValueError("a validator's weight must be from 1 to 1048576")
    weight = sum(seat.weight for seat in seats)
    if not weight < 2 * quorum <= 2 * weight:
        raise ValueError(f"quorum must be more than half of the weight {weight}, got {quorum}")


@dataclass(frozen=True, slots=True)
class Endorsement:
    """One authority key's signature over a governance object."""

    key: PublicKey
    signature: bytes


@dataclass(frozen=True, slots=True)
class SignedGenesis:
    genesis: Genesis
    endorsements: tuple[Endorsement, ...]
