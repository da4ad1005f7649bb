"""The signed peer records that a node knows: bounded in number and age. Wall clock in milliseconds.

A record is taken from others, and passed on to them, only while it is fresh. This node goes on
dialling an older one, so that it finds the network again after a long sleep with all seeds gone.
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from random import Random

from p2pd.core.hello import PeerRecord
from p2pd.core.ids import ID_BYTES, NetworkId, PeerId, RevisionId, TermId
from p2pd.core.signed import Scope, Signed
from p2pd.errors import RemoteError
from p2pd.ports import Table, Write

KIND = "peer-record"
PEERS_MAX = 2048
"""Records kept; those of unlinked peers that were issued first make room."""
FRESH_MS = 60 * 60 * 1000
FUTURE_MS = 5 * 60 * 1000
"""Clocks of honest nodes differ by less."""
FORGET_MS = 14 * 24 * 60 * 60 * 1000
ADDRESS_CHARACTERS = 255


class Freshness(Enum):
    FRESH = "fresh"
    STALE = "stale"
    """Too old to be passed on."""
    FUTURE = "future"
    """Issued later than now: its author's clock is wrong, or ours."""


def freshness(issued_at_ms: int, now_ms: int) -> Freshness:
    """The only place where the wall clock is compared with a record."""
    if issued_at_ms > now_ms + FUTURE_MS:
        return Freshness.FUTURE
    return Freshness.FRESH if issued_at_ms > now_ms - FRESH_MS else Freshness.STALE


def record_scope(network: NetworkId) -> Scope:
    """Peer records belong to a network, not to a term or revision."""
    nothing = bytes(ID_BYTES)
    return Scope(network, TermId(nothing), "", RevisionId(nothing), 0)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of host:port, the host without brackets.

    Raises:
        RemoteError: address is nothing that can be dialled.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    wellformed = colon and host and port.isascii() and port.isdigit()
    if not wellformed or len(address) > ADDRESS_CHARACTERS or not 0 < int(port[:6]) < 2**16:
        raise RemoteError(f"{address!r:.60} is not host:port")
    return host, int(port)


@lru_cache(maxsize=1024)
def is_loopback(address: str) -> bool:
    """Of this machine only. Raises RemoteError: as split_address."""
    host, _ = split_address(address)
    try:
        ip = ip_address(host)
    except ValueError:  # a name
        return host == "localhost" or host.endswith(".localhost")
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (mapped or ip).is_loopback or (mapped or ip).is_unspecified


@dataclass(frozen=True, slots=True)
class PeerView:
    """For the status view."""

    peer: PeerId
    record: PeerRecord
    linked: bool
    failures: int


class PeerTable:
    def __init__(self, own: PeerId, network: NetworkId, *, peers_max: int = PEERS_MAX) -> None:
        self._own = own
        self._scope = record_scope(network)
        self._peers_max = peers_max
        self._records: dict[PeerId, PeerRecord] = {}
        self._envelopes: dict[PeerId, bytes] = {}
        self._held: set[bytes] = set()
        self._local: set[PeerId] = set()
        """Those with a loopback address."""
        self._unsaved: dict[PeerId, None] = {}

    def peers(self) -> tuple[PeerId, ...]:
        return tuple(sorted(self._records))

    def get(self, peer: PeerId) -> PeerRecord | None:
        return self._records.get(peer)

    def holds(self, envelope: bytes) -> bool:
        """It was taken before: no need to verify it again."""
        return envelope in self._held

    def take(
        self, signed: Signed[PeerRecord], envelope: bytes, now_ms: int, *, nearby: bool = False
    ) -> bool:
        """Keeps the record if it is fresh, and newer than the one that is here. True if kept.

        Loopback addresses count only if nearby: when they come from a peer on this machine.

        Raises:
            RemoteError: no honest node signs or passes on such a record.
        """
        self._check(signed)
        record = signed.content
        if is_loopback(record.address) and not nearby:
            return False
        if freshness(record.issued_at_ms, now_ms) is not Freshness.FRESH:
            return False
        return self._keep(signed, envelope)

    def restore(self, signed: Signed[PeerRecord], envelope: bytes, now_ms: int) -> None:
        """Keeps a record of an earlier run of this node, also an old one.

        Raises:
            RemoteError: as take.
        """
        self._check(signed)
        if signed.content.issued_at_ms > now_ms - FORGET_MS:
            self._keep(signed, envelope)
            self._unsaved.pop(signed.signer, None)

    def make_room(self, linked: frozenset[PeerId], now_ms: int) -> None:
        """Drops what is forgotten by now, and then what was issued first, linked peers last."""
        for peer, record in list(self._records.items()):
            if record.issued_at_ms <= now_ms - FORGET_MS:
                self._drop(peer)
        excess = len(self._records) - self._peers_max
        if excess > 0:
            order = sorted(
                self._records, key=lambda p: (p in linked, self._records[p].issued_at_ms, p)
            )
            for peer in order[:excess]:
                self._drop(peer)

    def sample(self, dice: Random, most: int, now_ms: int, *, nearby: bool) -> tuple[bytes, ...]:
        """Envelopes of fresh records to pass on; loopback addresses only to a peer nearby."""
        fit = [
            peer
            for peer, record in sorted(self._records.items())
            if freshness(record.issued_at_ms, now_ms) is Freshness.FRESH
            and (nearby or peer not in self._local)
        ]
        chosen = dice.sample(fit, max(0, min(most, len(fit))))
        return tuple(self._envelopes[peer] for peer in chosen)

    def unsaved(self) -> list[Write]:
        """What has changed since the last call, for the ledger."""
        writes = [Write(Table.PEERS, peer, self._envelopes.get(peer)) for peer in self._unsaved]
        self._unsaved.clear()
        return writes

    def _check(self, signed: Signed[PeerRecord]) -> None:
        if signed.kind != KIND or signed.scope != self._scope:
            raise RemoteError(f"a {signed.kind!r:.40} in place of a peer record")
        split_address(signed.content.address)

    def _keep(self, signed: Signed[PeerRecord], envelope: bytes) -> bool:
        peer = signed.signer
        old = self._records.get(peer)
        if peer == self._own or (
            old is not None and old.issued_at_ms >= signed.content.issued_at_ms
        ):
            return False
        self._held.discard(self._envelopes.get(peer, b""))
        self._records[peer] = signed.content
        self._envelopes[peer] = envelope
        self._held.add(envelope)
        self._local.discard(peer)
        if is_loopback(signed.content.address):
            self._local.add(peer)
        self._unsaved[peer] = None
        return True

    def _drop(self, peer: PeerId) -> None:
        del self._records[peer]
        self._held.discard(self._envelopes.pop(peer))
        self._local.discard(peer)
        self._unsaved[peer] = None
