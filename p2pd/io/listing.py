"""A list of files with sizes and hashes, as repositories of data sets give it: JSON. Nothing in it is believed.

    [{"path": "data/train-000000.shard", "size": 31337, "sha256": "...", "url": "https://..."}, ...]

path may be called rfilename; the hash may stand in lfs as oid or sha256; without url a file lies below the
directory of the list. A list may be the value of "files" or "siblings". Bytes.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

from p2pd.errors import RemoteError

LIST_BYTES_MOST = 32 * 2**20
ENTRIES_MOST = 2**20
SIZE_MOST = 2**40
TEXT_MOST = 2000
SHA256 = re.compile(r"[0-9a-f]{64}")
SAFE = re.compile(r"[A-Za-z0-9._/+=@-]+")


@dataclass(frozen=True, slots=True)
class Listed:
    path: str
    """Below the list, without a way out of it."""
    size_bytes: int | None
    sha256: str
    """Hex; empty where nothing is said."""
    url: str
    """Empty where nothing is said."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


def parse_listing(data: bytes) -> Mapping[str, Listed]:
    """The files by their names without directories.

    Raises:
        RemoteError: it is no such list, or names something that it must not.
    """
    if len(data) > LIST_BYTES_MOST:
        raise RemoteError(f"the list has more than {LIST_BYTES_MOST} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RemoteError("the list is no JSON") from error
    if isinstance(found, dict):
        found = found.get("files", found.get("siblings"))
    if not isinstance(found, list) or len(found) > ENTRIES_MOST:
        raise RemoteError(f"the list is no JSON array of up to {ENTRIES_MOST} files")
    listed: dict[str, Listed] = {}
    for entry in found:
        if isinstance(entry, dict) and entry.get("type", "file") == "file":
            one = _listed(cast("dict[str, object]", entry))
            if one.name in listed:
                raise RemoteError(f"the list names two files {one.name!r:.80}")
            listed[one.name] = one
    return listed


def _listed(entry: Mapping[str, object]) -> Listed:
    path = entry.get("path", entry.get("rfilename"))
    if not isinstance(path, str) or len(path) > TEXT_MOST or SAFE.fullmatch(path) is None:
        raise RemoteError(f"the list has a file whose path is {path!r:.80}")
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or not PurePosixPath(path).name:
        raise RemoteError(f"the list has a file that lies outside of it: {path!r:.80}")
    url = entry.get("url", "")
    if not isinstance(url, str) or len(url) > TEXT_MOST:
        raise RemoteError(f"the list has no URL for {path!r:.80}, but {url!r:.80}")
    lfs = entry.get("lfs")
    more = cast("dict[str, object]", lfs) if isinstance(lfs, dict) else {}
    return Listed(path, _size(entry, path), _hash(entry, more, path), url)


def _size(entry: Mapping[str, object], path: str) -> int | None:
    size = entry.get("size")
    if size is None:
        return None
    if type(size) is not int or not 0 <= size <= SIZE_MOST:
        raise RemoteError(f"the list has the size {size!r:.40} for {path!r:.80}")
    return size


def _hash(entry: Mapping[str, object], lfs: Mapping[str, object], path: str) -> str:
    found = entry.get("sha256", lfs.get("sha256", lfs.get("oid", "")))
    if found and (not isinstance(found, str) or SHA256.fullmatch(found) is None):
        raise RemoteError(f"the list has the hash {found!r:.80} for {path!r:.80}")
    return str(found)
