"""Decentralized training for PyTorch: what a workload imports.

The names are loaded when first asked for: the daemon imports this package, but never torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2pd.workload.contract import Workload
    from p2pd.workload.learner import Learner, from_loaders

__all__ = ["Learner", "Workload", "from_loaders"]

_HOMES = {
    "Learner": "p2pd.workload.learner",
    "Workload": "p2pd.workload.contract",
    "from_loaders": "p2pd.workload.learner",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'p2pd' has no attribute {name!r}")
    return vars(import_module(_HOMES[name]))[name]
