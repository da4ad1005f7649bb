import json
import math
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from p2pd.errors import P2pError, StoreError, UnreachableError, UsageError
from p2pd.io import control
from p2pd.io.control import NotRunningError, ask, serve_control


async def echo(request: dict[str, Any]) -> dict[str, Any]:
    return {"you said": request}


async def hang(_: dict[str, Any]) -> dict[str, Any]:
    await trio.sleep_forever()
    raise AssertionError


def serving(
    directory: Path,
    answer: control.Answer,
    client: Callable[[], Awaitable[None]],
) -> None:
    async def main() -> None:
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_control, directory, answer)
                await client()
                nursery.cancel_scope.cancel()

    trio.run(main)


async def asked(directory: Path, request: dict[str, Any], timeout_s: float = 10) -> dict[str, Any]:
    return await trio.to_thread.run_sync(ask, directory, request, timeout_s)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_question_is_answered_and_the_socket_is_private(tmp_path: Path) -> None:
    async def client() -> None:
        assert stat.S_IMODE((tmp_path / "control").stat().st_mode) == 0o600
        for word in ("status", "é" * 10_000):
            assert await asked(tmp_path, {"call": word}) == {"you said": {"call": word}}

    serving(tmp_path, echo, client)
    assert list(tmp_path.iterdir()) == []


def test_a_long_answer_comes_whole(tmp_path: Path) -> None:
    async def long(_: dict[str, Any]) -> dict[str, Any]:
        return {"text": "x" * 5_000_000}

    async def client() -> None:
        assert len((await asked(tmp_path, {}))["text"]) == 5_000_000

    serving(tmp_path, long, client)


def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)

    async def client() -> None:
        assert (deep / "control").is_socket()
        assert await asked(deep, {"n": 1}) == {"you said": {"n": 1}}

    before = open_files()
    serving(deep, echo, client)
    assert open_files() == before
    with pytest.raises(NotRunningError):
        ask(deep, {}, 1)


def test_where_no_node_runs_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match=f"no node is running in {tmp_path}"):
        ask(tmp_path, {}, 5)
    with pytest.raises(NotRunningError, match=r"no node is running in .*nowhere"):
        ask(tmp_path / "nowhere", {}, 5)


def test_a_socket_that_a_killed_node_left_is_said_and_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control"))
    with pytest.raises(NotRunningError, match="no node is running"):
        ask(tmp_path, {}, 5)

    async def client() -> None:
        assert await asked(tmp_path, {}) == {"you said": {}}

    serving(tmp_path, echo, client)


def test_a_node_that_does_not_answer_is_told_from_none(tmp_path: Path) -> None:
    async def client() -> None:
        with pytest.raises(UnreachableError, match=r"does not answer within 0\.05 s") as caught:
            await asked(tmp_path, {}, timeout_s=0.05)
        assert not isinstance(caught.value, NotRunningError)

    serving(tmp_path, hang, client)


def test_a_refusal_is_told_to_who_asked(tmp_path: Path) -> None:
    async def refuse(request: dict[str, Any]) -> dict[str, Any]:
        raise UsageError(f"unknown call {request['call']}")

    async def client() -> None:
        with pytest.raises(P2pError, match=r"^unknown call dance$"):
            await asked(tmp_path, {"call": "dance"})

    serving(tmp_path, refuse, client)


@pytest.mark.parametrize("bad", [{"loss": math.nan}, {"key": b"bytes"}])
def test_a_bug_in_an_answer_ends_that_connection_and_is_logged(
    tmp_path: Path, bad: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def buggy(request: dict[str, Any]) -> dict[str, Any]:
        return bad if request else {}

    async def client() -> None:
        with pytest.raises(UnreachableError, match="ended before it answered"):
            await asked(tmp_path, {"call": "status"})
        assert await asked(tmp_path, {}) == {}

    serving(tmp_path, buggy, client)
    assert [record.message for record in caplog.records] == ["a control request failed"]


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"\xff", b"[" * 60_000, b"NaN"])
def test_a_line_that_is_no_request_is_refused_and_the_next_one_served(
    tmp_path: Path, line: bytes
) -> None:
    async def client() -> None:
        async with await trio.open_unix_socket(tmp_path / "control") as stream:
            await stream.send_all(line + b'\n{"n": 1}\n')
            received = b""
            while received.count(b"\n") < 2:
                received += await stream.receive_some()
        first, second = map(json.loads, received.splitlines())
        assert first["error"].startswith("a request must be")
        assert second == {"answer": {"you said": {"n": 1}}}

    serving(tmp_path, echo, client)


def test_i09_an_endless_line_is_cut_off(tmp_path: Path) -> None:
    async def client() -> None:
        async with await trio.open_unix_socket(tmp_path / "control") as stream:
            with pytest.raises(trio.BrokenResourceError):
                await stream.send_all(bytes(100 * control.REQUEST_BYTES))
        assert await asked(tmp_path, {}) == {"you said": {}}

    serving(tmp_path, echo, client)


def test_something_else_behind_the_socket_is_told(tmp_path: Path) -> None:
    async def stranger(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"[]\n")

    async def main() -> None:
        with trio.fail_after(20), socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "control"))
            listening.listen()
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, stranger, [listener])
                with pytest.raises(P2pError, match="is not a p2pd node"):
                    await asked(tmp_path, {})
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    async def client() -> None:
        raise AssertionError

    with pytest.RaisesGroup(pytest.RaisesExc(StoreError, match="nowhere"), flatten_subgroups=True):
        serving(tmp_path / "nowhere", echo, client)


@pytest.mark.parametrize("line", ["[" * 60_000, '{"a":' * 9_000, "9" * 9_000, "{", "\0", "\xff"])
def test_what_is_no_request_is_refused_in_words_of_our_own(tmp_path: Path, line: str) -> None:
    async def client() -> None:
        async with await trio.open_unix_socket(str(tmp_path / "control")) as stream:
            await stream.send_all(line.encode("latin-1") + b"\n")
            said = json.loads(await stream.receive_some())
        assert said == {"error": "a request must be one line of JSON, not nested deeply"}

    serving(tmp_path, echo, client)
