import json
import subprocess
import sys
from pathlib import Path

from tests.cli.commands import p2pd


def test_the_end_of_a_nodes_log_is_shown_as_a_terminal_can_show_it(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(100)))
    (tmp_path / "worker.log").write_text("größer\n\x1b[2Jgone\n")
    ran = p2pd("logs", "--data-dir", tmp_path)
    assert ran.out.splitlines() == [f"line {number}" for number in range(60, 100)]
    assert p2pd("logs", "--data-dir", tmp_path, "-n", 1).out == "line 99\n"
    assert p2pd("logs", "--data-dir", tmp_path, "--worker").out == "größer\n\\x1b[2Jgone\n"
    in_json = p2pd("logs", "--data-dir", tmp_path, "-n", 2, "--json").out.splitlines()
    assert [json.loads(line) for line in in_json] == [{"line": "line 98"}, {"line": "line 99"}]


def test_a_directory_without_a_log_is_said(tmp_path: Path) -> None:
    ran = p2pd("logs", "--data-dir", tmp_path, "--worker")
    assert ran.code == 2
    assert f"p2pd: {tmp_path}/worker.log: there is no such log: is {tmp_path} the data" in ran.err


def test_what_comes_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\n")
    command = [sys.executable, "-m", "p2pd.cli", "logs", "--follow", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        with path.open("a") as file:
            file.write("second\n")
        assert following.stdout.readline() == "second\n"
        following.terminate()
