"""Settings of one node. Units: bytes, seconds, as each name says."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreSettings:
    quota_bytes: int = 20 * 10**9
    """Most that artifacts may take on disk; 0 for no limit. The default holds a few states of a
    model of 500 million parameters. What is pinned is never removed: when that alone reaches the
    quota, further artifacts are refused."""
    reserve_bytes: int = 500 * 10**6
    """Disk space that is left free for everything else on this machine, the ledger included."""

    def __post_init__(self) -> None:
        if self.quota_bytes < 0:
            raise ValueError(f"quota_bytes must not be negative, got {self.quota_bytes}")
        if self.reserve_bytes < 0:
            raise ValueError(f"reserve_bytes must not be negative, got {self.reserve_bytes}")
