import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from p2pd.cli.entry import COMMANDS
from tests.cli.commands import p2pd

HEAVY = ("trio", "rich", "torch", "numpy", "aioquic", "nacl", "cbor2", "cryptography")


def modules_after(script: str) -> set[str]:
    """What a script has imported, top-level names."""
    tail = "\nimport sys\nprint('MODULES', *{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", script + tail]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stdout.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("word", ["--help", "hlep"])
def test_what_is_no_command_imports_nothing_that_is_slow(word: str) -> None:
    run = f"from p2pd.cli import main\ntry:\n main([{word!r}])\nexcept SystemExit:\n pass"
    assert not modules_after(run) & set(HEAVY)


def test_no_command_imports_torch() -> None:
    names = [f"import p2pd.cli.{command.module}" for command in COMMANDS.values()]
    assert "torch" not in modules_after("\n".join(names))


def test_help_names_every_command_with_what_it_does() -> None:
    out = p2pd("--help").out
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.help)}$", out, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_write_json(name: str) -> None:
    content = vars(import_module(f"p2pd.cli.{COMMANDS[name].module}"))
    app = content.get("app")
    words: list[list[str]] = [[name]]
    if COMMANDS[name].group:
        assert isinstance(app, typer.Typer)
        registered = [(one.name, one.callback) for one in app.registered_commands]
        words = [[name, given or call.__name__] for given, call in registered if call is not None]
    for command in words:
        assert "--json" in p2pd(*command, "--help").out


def test_version_is_said() -> None:
    assert re.fullmatch(r"p2pd \d+\.\d+\.\d+\n", p2pd("--version").out)


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["id", "--nonsense"], ["id"], ["network", "show"], ["heads", "nonsense"]],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    ran = p2pd(*arguments)
    assert ran.code == 2
    assert ran.out == ""


def test_an_error_is_one_line_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    (tmp_path / "key").chmod(0o600)
    ran = p2pd("id", "--data-dir", tmp_path)
    assert ran.code == 1
    assert ran.out == ""
    assert re.fullmatch(r"p2pd: key file .*/key is damaged: .*\n", ran.err)


def test_what_nobody_reads_ends_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "p2pd.cli", "id", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # long before it can have written anything
        assert process.stderr.read() == b""
        assert process.wait() == 1
