import json
from typing import Any

import pytest

from p2pd.errors import RemoteError
from p2pd.io import listing
from p2pd.io.listing import Listed, parse_listing

HASH = "ab" * 32


def parsed(found: Any) -> dict[str, Listed]:
    return dict(parse_listing(json.dumps(found).encode()))


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "data/a.shard", "size": 5, "sha256": HASH},
        {"rfilename": "data/a.shard", "size": 5, "lfs": {"sha256": HASH}},
        {"type": "file", "path": "data/a.shard", "size": 5, "lfs": {"oid": HASH, "size": 5}},
    ],
)
def test_lists_of_several_makes_are_read(entry: dict[str, object]) -> None:
    wanted = {"a.shard": Listed("data/a.shard", 5, HASH, "")}
    for found in ([entry], {"files": [entry]}, {"siblings": [entry]}):
        assert parsed(found) == wanted


def test_directories_and_what_is_not_said_are_left_out() -> None:
    found = parsed([{"type": "directory", "path": "data"}, {"path": "a", "url": "https://h/b"}])
    assert found == {"a": Listed("a", None, "", "https://h/b")}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"files": 3}, "no JSON array"),
        ("x", "no JSON array"),
        ([{"path": "../a"}], "outside of it"),
        ([{"path": "/etc/passwd"}], "outside of it"),
        ([{"path": "a/../../b"}], "outside of it"),
        ([{"path": "a\\b"}], "whose path is"),
        ([{"path": "a\nb"}], "whose path is"),
        ([{"path": 3}], "whose path is"),
        ([{}], "whose path is"),
        ([{"path": "x" * 3000}], "whose path is"),
        ([{"path": "a", "size": -1}], "the size -1"),
        ([{"path": "a", "size": 2**60}], "the size"),
        ([{"path": "a", "size": True}], "the size True"),
        ([{"path": "a", "sha256": "AB"}], "the hash 'AB'"),
        ([{"path": "a", "sha256": 3}], "the hash 3"),
        ([{"path": "a", "url": 3}], "no URL"),
        ([{"path": "a"}, {"path": "b/a"}], "two files"),
    ],
)
def test_i08_a_list_that_names_what_it_must_not_is_refused(found: object, why: str) -> None:
    with pytest.raises(RemoteError, match=why):
        parsed(found)


def test_i08_bytes_that_are_no_list_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"", b"[" * 100_000, b"\xff", b"[1"):
        with pytest.raises(RemoteError, match="no JSON"):
            parse_listing(data)
    monkeypatch.setattr(listing, "LIST_BYTES_MOST", 3)
    with pytest.raises(RemoteError, match="more than 3 bytes"):
        parse_listing(b"[   ]")
