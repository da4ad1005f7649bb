import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from rich.cells import cell_len

from p2pd.io.control import serve_control
from p2pd.status.legend import WORDS
from p2pd.status.snapshot import to_json
from tests.cli.commands import p2pd
from tests.status.samples import busy


@contextmanager
def node(directory: Path) -> Iterator[None]:
    """Something that answers for a node, in a thread of its own."""
    started = threading.Event()
    scope = trio.CancelScope()
    tokens: list[trio.lowlevel.TrioToken] = []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        assert request == {"call": "status"}
        return to_json(busy())

    async def main() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        with scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_control, directory, answer)
                started.set()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert started.wait(10)
        yield
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join(10)


def test_json_is_what_the_node_said(tmp_path: Path) -> None:
    with node(tmp_path):
        assert p2pd("status", "--data-dir", tmp_path, "--json").json == json.loads(
            json.dumps(to_json(busy()))
        )


def test_once_prints_the_view(tmp_path: Path) -> None:
    with node(tmp_path):
        ran = p2pd("status", "--data-dir", tmp_path, "--once")
    assert ran.code == 0
    assert "height 15" in ran.out
    assert "\x1b" not in ran.out


def test_the_configuration_says_where_the_node_is(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\nrole = "viewer"\ndata_dir = "."\n[network]\ngenesis = "g"\n')
    with node(tmp_path):
        assert p2pd("status", "--config", file, "--once").code == 0


def test_a_node_that_does_not_run_is_said(tmp_path: Path) -> None:
    ran = p2pd("status", "--data-dir", tmp_path, "--once")
    assert ran.code == 1
    said = f"no node is running in {tmp_path}: start it with p2pd run, or name another directory"
    assert ran.err == f"p2pd: {said}\n"


def test_without_a_node_it_is_a_matter_of_usage() -> None:
    ran = p2pd("status", "--once")
    assert ran.code == 2
    assert "--data-dir" in ran.err


@pytest.mark.parametrize("columns", [80, 100, 150])
def test_once_is_as_wide_as_columns_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with node(tmp_path):
        lines = p2pd("status", "--data-dir", tmp_path, "--once").out.splitlines()
    assert max(map(cell_len, lines)) == columns


@pytest.mark.parametrize("columns", ["", "0", "wide", "1", "30", "\u00b2", "10000000", "9" * 5000])
def test_once_can_be_drawn_whatever_columns_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", columns)
    with node(tmp_path):
        ran = p2pd("status", "--data-dir", tmp_path, "--once")
    assert ran.code == 0
    assert max(map(cell_len, ran.out.splitlines())) <= 1000


def test_the_help_explains_every_word_of_the_screen() -> None:
    out = p2pd("status", "--help").out
    for word, meaning in WORDS:
        assert word in out
        assert meaning in out


def test_the_manual_explains_every_word_of_the_screen() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for word, meaning in WORDS:
        assert f"| {word.strip()} | {meaning} |" in manual
