"""A map-style data set of the user's as encoded samples, for the writer of shard files."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset

from p2pd.errors import WorkloadError
from p2pd.workload.samples import dump
from p2pd.workload.source import failure_line, source_files


def records_of_named(name: str) -> Iterator[bytes]:
    """The samples of the data set that module:callable names, encoded, in order.

    Raises:
        WorkloadError: there is none, or the user's code failed; in one line.
    """
    module = name.partition(":")[0]
    files = source_files(module)
    try:
        yield from _records(name, _find(name))
    except Exception as error:  # around the user's code, which may raise anything
        raise WorkloadError(failure_line(error, files)) from error


def _find(name: str) -> Any:  # noqa: ANN401 - the user's own data set
    """What is called without arguments, unless a data set itself stands there."""
    module, _, attribute = name.partition(":")
    content: Mapping[str, Any] = vars(importlib.import_module(module))
    if attribute not in content:
        raise WorkloadError(f"{module} has no {attribute!r}: look at the name after the colon")
    found = content[attribute]
    data = found() if callable(found) and not _is_map_style(found) else found
    if not _is_map_style(data):
        raise WorkloadError(
            f"{name} gives {type(data).__name__}: a map-style data set is needed, with __getitem__ and"
            " __len__"
        )
    return data


def _is_map_style(data: object) -> bool:
    methods = {name for owner in type(data).__mro__ for name in vars(owner)}
    return {"__getitem__", "__len__"} <= methods and not isinstance(data, IterableDataset)


def _records(name: str, data: Any) -> Iterator[bytes]:  # noqa: ANN401
    for place in range(len(data)):
        try:
            yield dump(data[place])
        except ValueError as error:
            raise WorkloadError(
                f"sample {place} of {name} cannot be stored: {error}: give tensors, numbers, text, bytes,"
                " and tuples, lists or dicts of them"
            ) from error
