from pathlib import Path

import pytest

from p2pd.errors import UsageError
from p2pd.io.tail import Tail


def test_the_last_lines_come_first_and_then_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"{number}\n" for number in range(9)) + "hal")
    tail = Tail(path)
    assert tail.last(3) == ["6", "7", "8"]
    assert tail.more() == []
    with path.open("a") as file:
        file.write("f\nwhole\nno")
    assert tail.more() == ["half", "whole"]
    assert tail.last(0) == []


def test_lines_go_on_over_a_file_that_is_turned_over(tmp_path: Path) -> None:
    path, older = tmp_path / "log", tmp_path / "log.1"
    older.write_text("a\nb\n")
    path.write_text("c\n")
    tail = Tail(path)
    assert tail.last(2) == ["b", "c"]
    with path.open("a") as file:
        file.write("d\n")
    path.rename(older)
    assert tail.more() == []  # there is no file at this moment
    path.write_text("e\n")
    assert tail.more() == ["d", "e"]


def test_bytes_of_any_kind_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(range(256)) + b"\n")
    assert len(Tail(path).last(5)) == 2


def test_where_there_is_no_log_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there is no such log: is .* the data directory of a nod"
    ):
        Tail(tmp_path / "log")
