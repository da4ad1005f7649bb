"""A validator whose newest head changes on disk while it is down."""

import signal
from pathlib import Path

import pytest
import trio

from p2pd.cli.reading import open_chain
from p2pd.cli.verify import verify
from tests.crash import standin
from tests.crash.fleet import built_standin
from tests.end_to_end.fleet_bench import Bench, found, open_bench, until

LIMIT_S = 120.0
NAME = "validator1"


def test_i10_a_damaged_head_is_found_dropped_and_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in standin.install(tmp_path / "installed").items():
        monkeypatch.setenv(key, value)
    built = built_standin(tmp_path / "built")
    founded = found(tmp_path / "fleet", built, deadline_s=4.0, check_limit_s=2.0)

    async def main() -> Path:
        with trio.fail_after(LIMIT_S):
            async with open_bench(founded) as bench:
                path = await _damage(bench)
                said = bench.said(NAME)
                assert f"{path}: chunk 1 does not match; moved to {path}.damaged" in said
                assert "merge mismatch" not in said
                return path

    path = trio.run(main)
    assert path.with_name(f"{path.name}.damaged").exists()
    with open_chain(founded.genesis_file, founded.data_dir(NAME), "") as chain:
        assert [f for f in verify(chain).findings if f.fault] == []


async def _damage(bench: Bench) -> Path:
    """The file that was changed; the validator goes on from it all the same."""
    await bench.start_seed(NAME, "validator")
    bench.start("trainer", "trainer")
    await bench.promotes(NAME, 1)
    head = await until("the trainer has the newest head", lambda: _shared(bench))
    path = bench.founded.data_dir(NAME) / "blobs" / head
    bench.kill(NAME)
    bench.nodes["trainer"].process.send_signal(signal.SIGCONT)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    await bench.start_seed(NAME, "validator")
    await bench.promotes(NAME, 3)
    return path


async def _shared(bench: Bench) -> str:
    """A head that both have, from which no other can be made now: the trainer stands still."""
    trainer = bench.nodes["trainer"].process
    trainer.send_signal(signal.SIGSTOP)
    revision = await bench.revision(NAME)
    head: str = revision["head"]
    under_way = [lease["state"] for lease in revision["leases"]] == ["training"]
    if under_way and all(
        (bench.founded.data_dir(name) / "blobs" / head).exists() for name in ("trainer", NAME)
    ):
        return head
    trainer.send_signal(signal.SIGCONT)
    return ""
