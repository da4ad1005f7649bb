"""Names that others choose: they reach no path, and no terminal."""

from pathlib import Path

import pytest

from p2pd.core.ids import ArtifactId
from p2pd.errors import printable
from tests.io.blob_bench import Bench, content, run

HOSTILE = [b"../../x", b"/etc/x", b"a\0b", b"x" * 5000, b"", b"tmp-1", b"\xff" * 32]


@pytest.mark.parametrize("name", HOSTILE)
def test_i08_no_id_that_a_peer_asks_for_becomes_a_path_outside_the_store(
    tmp_path: Path, name: bytes
) -> None:
    bench = Bench(tmp_path / "blobs")
    bench.put(content(1))
    outside = tmp_path / "x"
    outside.write_bytes(b"not for others")
    (bench.directory / "link").symlink_to(outside)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    bench.open()
    asked = ArtifactId(name)
    assert not bench.store.has(asked)
    assert bench.store.manifest(asked) is None
    assert run(bench.store.read, asked, 0) is None
    bench.store.pin(asked, "a peer")
    bench.store.unpin(asked, "a peer")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert outside.read_bytes() == b"not for others"


def test_what_others_write_moves_no_cursor() -> None:
    assert printable("a\x1b[2Jb\x9bc\r\nd\u202ee") == r"a\x1b[2Jb\x9bc\r\nd\u202ee"
