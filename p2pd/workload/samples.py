"""Samples of shard files with torch's tensors in them. numpy's arrays and single numbers become tensors too."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from p2pd.core.samples import Sample, Tensor, dump_sample, load_sample
from p2pd.workload.state import DTYPE_NAMES, DTYPES


def dump(sample: object) -> bytes:
    """Raises ValueError: something in it has no form in a shard file."""
    return dump_sample(_packed(sample))


def load(data: bytes) -> Any:  # noqa: ANN401 - whatever was stored
    """Raises RemoteError: these are not the bytes of a sample."""
    return _unpacked(load_sample(data))


def _packed(value: object) -> object:
    match value:
        case torch.Tensor():
            return _bytes_of(value)
        case np.ndarray() | np.generic():
            return _bytes_of(_of_numpy(value))
        case tuple():
            return tuple(map(_packed, value))
        case list():
            return list(map(_packed, value))
        case Mapping():
            return {key: _packed(one) for key, one in value.items()}
        case _:
            return value


def _of_numpy(value: object) -> torch.Tensor:
    try:
        return torch.from_numpy(np.array(value))
    except TypeError as error:
        raise ValueError(f"it holds an array that torch does not know: {error}") from error


def _bytes_of(tensor: torch.Tensor) -> Tensor:
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPE_NAMES:
        raise ValueError(f"it holds a tensor of {tensor.dtype}, {tensor.layout}")
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return Tensor(DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), flat.numpy().tobytes())


def _unpacked(value: Sample) -> object:
    match value:
        case Tensor():
            return _tensor_of(value)
        case tuple():
            return tuple(map(_unpacked, value))
        case list():
            return list(map(_unpacked, value))
        case dict():
            return {key: _unpacked(one) for key, one in value.items()}
        case _:
            return value


def _tensor_of(value: Tensor) -> torch.Tensor:
    dtype = DTYPES[value.dtype]
    if not value.data:
        return torch.empty(value.shape, dtype=dtype)
    flat = torch.frombuffer(bytearray(value.data), dtype=torch.uint8)
    # A byte that is neither 0 nor 1 is no bool to torch, and must not become one by a view.
    numbers = flat.ne(0) if dtype is torch.bool else flat.view(dtype)
    return numbers.reshape(value.shape)
