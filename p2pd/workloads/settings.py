"""Configurations of the reference workloads: a dataclass of defaults, and what may stand in its place."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, TypeVar

from p2pd.errors import WorkloadError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

LEAST = "least"
"""Key of a field's metadata: the smallest whole number that may stand there; 0 where it is left out."""


def parse(kind: type[T], workload: str, config: Mapping[str, object]) -> T:
    """The configuration, with defaults for what is left out. Fractions must be positive.

    Raises:
        WorkloadError: naming the key, and what may stand there.
    """
    values = asdict(kind())
    least = {field.name: field.metadata.get(LEAST, 0) for field in fields(kind)}
    for key, value in config.items():
        if key not in values:
            near = difflib.get_close_matches(key, values, 1, 0.0)[0]
            raise WorkloadError(f"{workload} has no config key {key!r}: did you mean {near!r}?")
        values[key] = _checked(key, value, values[key], least[key])
    return kind(**values)


def _checked(key: str, value: object, default: object, least: int) -> object:
    number = not isinstance(value, bool)
    if isinstance(default, str):
        if not isinstance(value, str) or not value:
            raise WorkloadError(f"{key} must be a text that is not empty, got {value!r}")
    elif isinstance(default, float):
        if not (number and isinstance(value, int | float) and 0 < value < math.inf):
            raise WorkloadError(f"{key} must be a positive number, got {value!r}")
    elif not (number and isinstance(value, int) and value >= least):
        raise WorkloadError(f"{key} must be a whole number of at least {least}, got {value!r}")
    return value
