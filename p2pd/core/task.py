"""One lease of a trainer on its way to an update."""

from dataclasses import dataclass

from p2pd.core.ids import ArtifactId, DecisionId
from p2pd.core.work import TrainJob, TrainResult


@dataclass(slots=True)
class Task:
    height: int
    """Of the plan in which it counts."""
    shards: tuple[int, ...]
    base: ArtifactId
    plan: DecisionId | None
    """The decision that dealt it; None while it is only reserved."""
    job: TrainJob
    base_here: bool = False
    data_here: bool = False
    started: bool = False
    result: TrainResult | None = None
