"""What can be set about the overlay transport. Seconds, bytes."""

from dataclasses import dataclass, fields
from ipaddress import ip_address

DATAGRAM_BYTES_MIN = 1200
DATAGRAM_BYTES_MAX = 16_000
"""aioquic 1.7.2 writes the length of a STREAM frame of more than 16383 bytes wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaySettings:
    listen: str = "127.0.0.1:0"
    """host:port of the one UDP socket, an IPv6 host in brackets; port 0 takes a free one."""
    advertise: str = ""
    """host:port that other nodes are told; empty: the bound address, unless it is unspecified."""
    datagram_bytes: int = 1200
    """Largest UDP payload sent. 1200 passes every path; up to 16000 where the path is known."""
    idle_s: float = 60.0
    """A connection on which nothing arrives for so long is over."""
    keep_alive_s: float = 15.0
    """Between pings; three unanswered in a row end the link. NATs forget after 20 to 30 s."""
    dial_s: float = 10.0
    """How long connect waits for the other side's hello."""
    handshake_s: float = 10.0
    """How long a caller may take from its first datagram to a valid hello."""
    probe_s: float = 2.0
    """How long a link may take to answer, when its peer connects again, before it is dead."""
    stall_s: float = 30.0
    """A request that stops coming, or a response that stops being taken, is given up after this."""
    peers_max: int = 256
    """Links; a caller beyond that is refused. One place in eight is kept for validators."""
    half_open_max: int = 256
    """Callers that have not said hello yet; datagrams of further ones are dropped."""
    half_open_per_host: int = 64
    """Of them, those from one address: a single machine cannot shut all others out."""
    half_open_retry: int = 32
    """From so many on, a caller must prove its address: a round trip more (RFC 9000 8.1.2)."""
    requests_per_peer: int = 16
    """Asked of, and answered for, one peer at once; more wait. Each open stream slows the rest."""
    request_bytes: int = 2**14
    """Largest request that is read. The longest that a node sends has a hundred bytes."""
    message_bytes: int = 2**20
    """Largest control message, sent or received."""
    control_bytes: int = 2 * 2**20
    """Control messages to one peer that may be on their way; send returns False beyond that."""
    backlog_bytes: int = 4 * 2**20
    """Unacknowledged bytes of a connection at which writers wait: the most per round trip. One that
    has nothing under way may write a piece all the same, so that no unread response blocks others."""
    stream_window_bytes: int = 2 * 2**20
    """Unread bytes of a response that the other side may have under way."""
    request_window_bytes: int = 64 * 2**10
    """Unread bytes of a request that the other side may have under way."""
    connection_window_bytes: int = 36 * 2**20
    """Unread bytes of all streams together."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) and value <= 0:
                raise ValueError(f"overlay.{field.name} must be positive, got {value}")
        split_address(self.listen, "overlay.listen")
        if self.advertise:
            host, port = split_address(self.advertise, "overlay.advertise")
            if port == 0 or unspecified(host):
                raise ValueError(
                    f"overlay.advertise must be an address others can reach, got {self.advertise!r}"
                )
        if not DATAGRAM_BYTES_MIN <= self.datagram_bytes <= DATAGRAM_BYTES_MAX:
            raise ValueError(
                f"overlay.datagram_bytes must be from {DATAGRAM_BYTES_MIN} to {DATAGRAM_BYTES_MAX},"
                f" got {self.datagram_bytes}"
            )
        if self.keep_alive_s * 3 > self.idle_s:
            raise ValueError(
                f"overlay.keep_alive_s must be at most a third of idle_s ({self.idle_s}),"
                f" got {self.keep_alive_s}"
            )
        if self.control_bytes < self.message_bytes + 4:
            raise ValueError(
                "overlay.control_bytes must exceed message_bytes, or no such message fits"
            )
        # Neither responses that are not read nor requests that wait may ever block the control lane.
        unread = self.stream_window_bytes + self.request_window_bytes
        held = self.requests_per_peer * unread + self.request_window_bytes
        if held > self.connection_window_bytes:
            raise ValueError(
                "overlay.connection_window_bytes must hold requests_per_peer of stream_window_bytes"
                f" and one more of request_window_bytes, which is {held}"
            )


def split_address(text: str, key: str) -> tuple[str, int]:
    """Host, without brackets, and port.

    Raises:
        ValueError: not host:port; the message begins with key.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not host or (":" in host) != bracketed:
        raise ValueError(f"{key} must be host:port, an IPv6 host in brackets, got {text!r}")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f"{key} must end in a port from 0 to 65535, got {text!r}")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """As split_address takes it; an IPv4 address seen by an IPv6 socket is written as IPv4."""
    host = host.removeprefix("::ffff:")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unspecified(host: str) -> bool:
    """True for 0.0.0.0 and ::, which name no machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
