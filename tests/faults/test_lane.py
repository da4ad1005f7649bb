"""The lane of the cases as stated, but for the cases."""

import socket
import sys

import pytest

from p2pd.bench.children import Child
from tests.faults.lane import CASES, line_of, main
from tests.faults.stated.seen import Seen

NARROW = "tests.faults.stated.narrow"
LIMIT_S = 30.0


def test_a_figure_that_is_not_right_is_marked_and_fails_its_case() -> None:
    seen = Seen()
    seen.note("1 MB of log", right=True)
    assert line_of("J4", seen) == "J4  ok     1 MB of log"
    seen.note("2 exceptions", right=False)
    assert line_of("J4", seen) == "J4  FAILED 1 MB of log; !! 2 exceptions"
    assert seen.wrong == ["2 exceptions"]


def test_a_narrow_line_carries_what_comes_back_and_loses_what_is_too_much() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as node,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller,
    ):
        for one in (node, caller):
            one.settimeout(LIMIT_S)
        node.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{node.getsockname()[1]}"
        with Child(NARROW, "10000", address) as line:
            caller.sendto(b"hello", ("127.0.0.1", line.hear(LIMIT_S)["port"]))
            data, back = node.recvfrom(2**16)
            assert data == b"hello"
            for _ in range(40):
                node.sendto(bytes(100), back)
            node.sendto(b"lost", back)
            assert caller.recv(2**16) == bytes(100)
            line.tell("how much")
            assert 100 <= line.hear(LIMIT_S)["carried"] < 4000


def test_the_help_names_every_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lane", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(f"{name}:" in said for name in CASES)
