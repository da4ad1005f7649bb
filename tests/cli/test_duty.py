"""p2pd pause and resume, against something that answers for a node."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from p2pd.errors import UsageError
from p2pd.io.control import serve_control
from tests.cli.commands import p2pd


@contextmanager
def node(directory: Path, role: str) -> Iterator[None]:
    started, scope = threading.Event(), trio.CancelScope()
    tokens: list[trio.lowlevel.TrioToken] = []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        if role != "trainer":
            raise UsageError(f"this node is a {role}: only a trainer can be paused")
        return {"paused": {"pause": "p2pd resume ends it", "resume": ""}[request["call"]]}

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


def test_an_owner_pauses_and_resumes_a_trainer_and_is_told_what_it_does(tmp_path: Path) -> None:
    with node(tmp_path, "trainer"):
        paused = p2pd("pause", "--data-dir", tmp_path)
        resumed = p2pd("resume", "--data-dir", tmp_path)
        in_json = p2pd("pause", "--data-dir", tmp_path, "--json").json
    assert (paused.code, paused.out) == (0, "the trainer rests: p2pd resume ends it\n")
    assert (resumed.code, resumed.out) == (0, "the trainer works\n")
    assert in_json == {"paused": "p2pd resume ends it"}


def test_what_cannot_be_paused_is_said(tmp_path: Path) -> None:
    with node(tmp_path, "validator"):
        ran = p2pd("pause", "--data-dir", tmp_path)
    assert (ran.code, ran.err) == (
        1,
        "p2pd: this node is a validator: only a trainer can be paused\n",
    )
    absent = p2pd("resume", "--data-dir", tmp_path)
    assert absent.code == 1
    assert "no node is running in" in absent.err
