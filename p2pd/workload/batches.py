"""One batch on its way from a loader to the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import torch


@dataclass(frozen=True, slots=True)
class Batch:
    content: Any
    samples: int
    whole: int
    """Samples of the batch that this is one worker's part of; where there are several, it may have none."""


def placed(content: Any, device: torch.device) -> Any:  # noqa: ANN401 - whatever the loader gives
    """All tensors of a batch on the model's device, in whatever pairs, lists and dicts they come."""
    match content:
        case torch.Tensor():
            return content.to(device)
        case Mapping():
            return {key: placed(value, device) for key, value in content.items()}
        case tuple() if type(content) is not tuple:  # a named one takes its fields one by one
            return type(content)(*(placed(part, device) for part in content))
        case tuple() | list():
            return type(content)(placed(part, device) for part in content)
        case _:
            return content


def fingerprint(content: object, before: int = 0) -> int:
    """Of all numbers and texts of a batch, upon that of the batches before it; 0 of nothing upon 0."""
    match content:
        case torch.Tensor():
            flat = content.detach().cpu().contiguous().reshape(-1)
            return crc32(flat.view(torch.uint8).numpy().data, before)
        case Mapping():
            return fingerprint(list(content.values()), before)
        case list() | tuple():
            for part in content:
                before = fingerprint(part, before)
            return before
        case str() | bytes() | int() | float():
            return crc32(repr(content).encode(), before)
        case _:
            return before
