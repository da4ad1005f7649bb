"""Decentralized training for PyTorch: what a workload imports, and who uses what came of it.

The names are loaded when first asked for: the daemon imports this package, but never torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2pd.script import attach
    from p2pd.workload.contract import Workload
    from p2pd.workload.heads import load_head
    from p2pd.workload.learner import Callback, Learner
    from p2pd.workload.pipelines import Indexed, Pipeline
    from p2pd.workload.plain import from_loaders
    from p2pd.workload.sharded import Sharded
    from p2pd.workload.streams import Generated

__all__ = [
    "Callback",
    "Generated",
    "Indexed",
    "Learner",
    "Pipeline",
    "Sharded",
    "Workload",
    "attach",
    "from_loaders",
    "load_head",
]

_HOMES = {
    "Callback": "p2pd.workload.learner",
    "Generated": "p2pd.workload.streams",
    "Indexed": "p2pd.workload.pipelines",
    "Learner": "p2pd.workload.learner",
    "Pipeline": "p2pd.workload.pipelines",
    "Sharded": "p2pd.workload.sharded",
    "Workload": "p2pd.workload.contract",
    "attach": "p2pd.script",
    "from_loaders": "p2pd.workload.plain",
    "load_head": "p2pd.workload.heads",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'p2pd' has no attribute {name!r}")
    return vars(import_module(_HOMES[name]))[name]
