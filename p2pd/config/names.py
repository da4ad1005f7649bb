"""How peers, keys and addresses are written: lowercase hex, host:port, HEX@host:port."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from p2pd.core.ids import ID_BYTES, PeerId, PublicKey
from p2pd.errors import UsageError

HEX = re.compile(r"[0-9a-f]*")
HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s@/]+):(?P<port>[0-9]{1,5})")
WEB_SCHEMES = ("http", "https")
PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Seed:
    """Where a network can be entered."""

    peer: PeerId | None
    """None: whoever answers there is taken, if it is of this network."""
    address: str
    """host:port"""


def parse_peer_id(text: str) -> PeerId:
    """
    Raises, as all here do:
        UsageError: text is no such thing; the message says why.
    """
    return PeerId(_parse_hex(text, "peer id"))


def parse_public_key(text: str) -> PublicKey:
    return PublicKey(_parse_hex(text, "public key"))


def parse_seed(text: str) -> Seed:
    peer, separator, address = text.rpartition("@")
    parse_address(address)
    return Seed(parse_peer_id(peer) if separator else None, address)


def parse_address(text: str) -> tuple[str, int]:
    """Host, without the brackets of an IPv6 one, and port."""
    match = HOST_PORT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"address {text!r} is not host:port, like 192.0.2.7:4700 or [2001:db8::7]:4700"
        )
    port = int(match["port"])
    if port > PORT_MAX:
        raise UsageError(f"address {text!r}: port {port} is beyond {PORT_MAX}: choose a lower one")
    return match["host"].strip("[]"), port


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_hex(text: str, what: str) -> bytes:
    if HEX.fullmatch(text) is None:
        raise UsageError(f"{what} {text!r} must be lowercase hex digits only")
    if len(text) != 2 * ID_BYTES:
        raise UsageError(f"{what} {text!r} must have {2 * ID_BYTES} hex digits, got {len(text)}")
    return bytes.fromhex(text)


def check_url(url: str) -> None:
    """Raises UsageError: this is no URL of a web server."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in WEB_SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r:.200} is no URL like https://host/directory")


def check_source(name: str) -> None:
    """Of data. Raises UsageError: it is neither a URL nor the absolute path of a directory."""
    scheme, separator, _ = name.partition("://")
    if scheme in WEB_SCHEMES and separator:
        check_url(name)
    elif not separator and not name.startswith("/"):
        raise UsageError(f"{name!r:.200} is neither a URL nor an absolute path")
