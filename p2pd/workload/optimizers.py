"""The state of an optimizer, put back to the bit."""

import copy
from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from torch.optim import Optimizer


def load_optimizer(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """As optimizer.load_state_dict, but that each tensor keeps its own type.

    torch casts floating state to the type of its parameter, and so would round what an optimizer keeps in
    float32 for parameters in bfloat16.
    """
    optimizer.load_state_dict(copy.deepcopy(dict(state)))
    parameters = chain.from_iterable(group["params"] for group in optimizer.param_groups)
    for number, parameter in enumerate(parameters):
        saved = state["state"].get(number, {})
        for name, value in saved.items():
            loaded = optimizer.state[parameter][name]
            if isinstance(value, torch.Tensor) and loaded.dtype != value.dtype:
                optimizer.state[parameter][name] = value.to(loaded.device, copy=True)
