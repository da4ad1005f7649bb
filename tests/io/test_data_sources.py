import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from p2pd.core.artifact import CHUNK_BYTES
from p2pd.core.samples import dump_sample
from p2pd.core.shards import ShardFile, ShardSet
from p2pd.errors import RemoteError, UnreachableError, UsageError
from p2pd.io import data_sources
from p2pd.io.data_sources import open_sources
from p2pd.io.shard_writer import Source, write_set
from p2pd.ports import DataSource
from tests.io.web import Web, serving

T = TypeVar("T")


@pytest.fixture
def shards(tmp_path: Path) -> ShardSet:
    samples = [dump_sample(bytes([n]) * (CHUNK_BYTES // 2)) for n in range(5)]
    return write_set(tmp_path / "set", {"train": Source("large", samples)}, 4)


@pytest.fixture
def web(tmp_path: Path, shards: ShardSet) -> Iterator[Web]:
    with serving(tmp_path / "set") as running:
        yield running


def source(name: object, patience_s: float = 5.0) -> DataSource:
    (found,) = open_sources([str(name)], patience_s)
    return found


def run(function: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        with trio.fail_after(30):
            return await function()

    return trio.run(main)


async def chunks(source: DataSource, file: ShardFile, chunk: int) -> list[bytes]:
    found = []
    async with source.read(file.name, file.manifest, chunk) as reading:
        while data := await reading.next():
            found.append(data)
    return found


def brought(source: DataSource, file: ShardFile, chunk: int = 0) -> list[bytes]:
    return run(partial(chunks, source, file, chunk))


def listing(shards: ShardSet, url: str = "", **wrong: object) -> str:
    rows = []
    for split, number in shards.files():
        row: dict[str, object] = {"path": split.file_name(number), "size": split.sizes[number]}
        rows.append({**row, **({"url": f"{url}/{row['path']}"} if url else {}), **wrong})
    return json.dumps(rows)


def test_each_kind_of_source_gives_the_same_chunks(
    tmp_path: Path, shards: ShardSet, web: Web
) -> None:
    directory = tmp_path / "set"
    (directory / "here.json").write_text(listing(shards))
    (tmp_path / "urls.json").write_text(listing(shards, f"{web.url}/good"))
    file = shards.splits[0].file(0)
    data = (directory / file.name).read_bytes()
    wanted = [data[:CHUNK_BYTES], data[CHUNK_BYTES : 2 * CHUNK_BYTES], data[2 * CHUNK_BYTES :]]
    names = (
        directory,
        f"file://{directory}",  # by fsspec
        f"{web.url}/good",
        f"{web.url}/good/",
        f"{web.url}/flat",
        f"{web.url}/moved",
        directory / "here.json",
        f"{web.url}/good/here.json",
        tmp_path / "urls.json",
    )
    for name in names:
        assert brought(source(name), file) == wanted, name
        assert brought(source(name), file, 2) == wanted[2:], name


@pytest.mark.parametrize("how", ["hanging", "dripping"])
def test_a_server_that_hangs_or_drips_is_given_up_in_time(
    shards: ShardSet, web: Web, how: str
) -> None:
    with pytest.raises(UnreachableError, match=r"less than a chunk in 0.3 s|timed out"):
        brought(source(f"{web.url}/{how}", 0.3), shards.splits[0].file(0))


def test_what_a_list_says_is_compared_before_anything_is_fetched(
    tmp_path: Path, shards: ShardSet, web: Web
) -> None:
    small, large = shards.splits[0].file(1), shards.splits[0].file(0)
    for wrong in ({"size": 5}, {"sha256": "ab" * 32}):
        (tmp_path / "list.json").write_text(listing(shards, f"{web.url}/good", **wrong))
        with pytest.raises(RemoteError, match=r"lists another train-000001.shard"):
            brought(source(tmp_path / "list.json"), small)
    assert not web.asked
    assert len(large.manifest.chunks) > 1
    (tmp_path / "list.json").write_text(listing(shards, "gopher://h"))
    with pytest.raises(RemoteError, match="which is no URL"):
        brought(source(tmp_path / "list.json"), large)
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(UnreachableError, match=r"lists no train-000000\.shard"):
        brought(source(tmp_path / "list.json"), large)
    (tmp_path / "list.json").write_text("{")
    with pytest.raises(RemoteError, match="the list is no JSON"):
        brought(source(tmp_path / "list.json"), large)


def test_what_is_not_there_is_unreachable(tmp_path: Path, shards: ShardSet, web: Web) -> None:
    file = shards.splits[0].file(0)
    for name in (tmp_path, tmp_path / "no.json", f"file://{tmp_path}", f"{web.url}/good/no"):
        with pytest.raises(UnreachableError, match=r"no such file|404"):
            brought(source(name), file)


def test_a_file_system_of_others_may_raise_what_it_likes(shards: ShardSet) -> None:
    with pytest.raises(UnreachableError, match=r"no-such-scheme://x: .*no-such-scheme"):
        brought(source("no-such-scheme://x"), shards.splits[0].file(0))


def test_what_is_no_source_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, why in (("set", "an absolute path"), ("http://", "no URL")):
        with pytest.raises(UsageError, match=why):
            source(name)
    monkeypatch.setattr(data_sources, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="needs fsspec: pip install"):
        source("s3://bucket/set")
