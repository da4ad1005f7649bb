"""What a node lends to all of its lanes."""

from typing import Protocol

from p2pd.core.ids import PeerId
from p2pd.node.data_files import DataFiles
from p2pd.node.governance import GovernanceLog
from p2pd.node.supervision import Supervision
from p2pd.node.transfer import Transfer
from p2pd.ports import BlobStore, Ledger, Math, Signer, Transport, Worker


class Hub(Protocol):
    signer: Signer
    transport: Transport
    ledger: Ledger
    blobs: BlobStore
    transfer: Transfer
    math: Math
    worker: Worker
    data: DataFiles
    private_seed: int
    keep_every: int
    paused: str
    supervision: Supervision
    governance: GovernanceLog

    def offended(self, peer: PeerId, why: str) -> None:
        """A peer did what no honest one does."""
        ...
