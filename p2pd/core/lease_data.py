"""What a trainer's machine asks of the data of a lease, where they come with it, and what it is told."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BringData:
    """Job: have the data of these microshards here. Answered by DataBrought."""

    height: int
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DataBrought:
    """Answers BringData."""

    job: BringData
    why: str
    """They are not here; empty where they are."""
