"""Authenticated links between nodes: the Transport port over QUIC."""

from p2pd.io.overlay.identity import Identity
from p2pd.io.overlay.settings import OverlaySettings
from p2pd.io.overlay.transport import LinkCounters, QuicTransport

__all__ = ["Identity", "LinkCounters", "OverlaySettings", "QuicTransport"]
