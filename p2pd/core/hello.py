"""What two nodes tell each other first, and what a node lets others pass on about it."""

from dataclasses import dataclass

from p2pd.core.ids import NetworkId

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Hello:
    version: int
    network: NetworkId
    roles: tuple[str, ...]
    address: str
    """host:port where this node takes connections; empty when it takes none."""
    agent: str
    """Program and version, for people."""


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """Signed by the node itself; passed on by seeds and neighbours."""

    address: str
    roles: tuple[str, ...]
    issued_at_ms: int
    """Wall clock: a newer record replaces an older one, and one too old is not passed on."""
