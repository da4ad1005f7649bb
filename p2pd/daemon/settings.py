"""All that one node is told: the tables of its configuration file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from p2pd.config.loading import Override, load
from p2pd.config.node import (
    NODE_TABLES,
    DataSettings,
    ExperimentSettings,
    LogSettings,
    NetworkSettings,
    NodeSettings,
    StoreSettings,
    TrainerSettings,
    WorkerLimits,
)
from p2pd.io.overlay.settings import OverlaySettings

TABLES: Mapping[str, type] = {**NODE_TABLES, "overlay": OverlaySettings}


class NodeConfig:
    """The effective settings of one node."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.node: NodeSettings = tables["node"]
        self.log: LogSettings = tables["log"]
        self.network: NetworkSettings = tables["network"]
        self.store: StoreSettings = tables["store"]
        self.data: DataSettings = tables["data"]
        self.worker: WorkerLimits = tables["worker"]
        self.trainer: TrainerSettings = tables["trainer"]
        self.experiment: ExperimentSettings = tables["experiment"]
        self.overlay: OverlaySettings = tables["overlay"]


def load_node(path: Path | None, overrides: tuple[Override, ...] = ()) -> NodeConfig:
    """Raises UsageError: one line for each thing that is wrong."""
    return NodeConfig(load(path, TABLES, overrides))
