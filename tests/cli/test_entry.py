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


def _every_command() -> list[list[str]]:
    words: list[list[str]] = []
    for name, command in COMMANDS.items():
        app = vars(import_module(f"p2pd.cli.{command.module}")).get("app")
        if not command.group:
            words.append([name])
            continue
        assert isinstance(app, typer.Typer)
        registered = [(one.name, one.callback) for one in app.registered_commands]
        words += [[name, given or call.__name__] for given, call in registered if call is not None]
    return words


@pytest.mark.parametrize("words", _every_command(), ids=" ".join)
def test_every_command_can_write_json(words: list[str]) -> None:
    assert "--json" in p2pd(*words, "--help").out


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hlep"], "no such command 'hlep'"),
        (["id"], "missing option '--data-dir'"),
        (["id", "--nonsense"], "no such option"),
        (["id", "--data-dir"], "--data-dir"),
        (["network"], "missing command"),
        (["network", "show"], "missing argument 'FILE'"),
        (["network", "show", "a", "b"], "b"),
        (["sim", "--seeds", "many"], "'--seeds'"),
        (["sim", "--seeds", "0"], "'--seeds'"),
        (["sim", "--faults", "a\nb"], "'--faults'"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_help(arguments: list[str], said: str) -> None:
    ran = p2pd(*arguments)
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert line.startswith("p2pd: ")
    assert said in line
    words = arguments if arguments[0] in COMMANDS else []
    where = " ".join(["p2pd", *words[: 2 if words[1:2] == ["show"] else 1]])
    assert line.endswith(f": see {where} --help")


def test_without_a_command_the_help_is_shown() -> None:
    ran = p2pd()
    assert ran.code == 2
    assert ran.out == p2pd("--help").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["id", "--data-dir", ""],
        ["id", "--data-dir="],
        ["demo", "--dir", ""],
        ["network", "show", ""],
        ["config", "check", ""],
        ["status", "--data-dir", "", "--once"],
        ["network", "create", "--out", "g", "--authority", ""],
    ],
)
def test_an_empty_path_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = p2pd(*arguments)
    assert ran.code == 2
    assert re.fullmatch(r"p2pd: \S.* is empty: give a value, or leave it out\n", ran.err)
    assert list(tmp_path.iterdir()) == []


FULL = """
import sys
from p2pd.cli import main
for words in {commands}:
    sys.stdout = open("/dev/full", "w")
    try:
        main(words)
    except SystemExit as ended:
        print(ended.code, file=sys.stderr)
"""


def test_what_cannot_be_written_is_one_line_and_a_failure(tmp_path: Path) -> None:
    data_dir = str(tmp_path)
    commands = [
        [],
        ["--version"],
        ["id", "--help"],
        ["id", "--data-dir", data_dir],
        ["id", "--data-dir", data_dir, "--json"],
        ["sim", "--break", "list"],
        ["config", "show"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", FULL.format(commands=commands)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = done.stderr.splitlines()
    full = "p2pd: standard output cannot be written: No space left on device: write it elsewhere"
    assert said == [full, "1"] * len(commands)


@pytest.mark.parametrize("streams", [1, 2])
def test_the_interpreter_adds_nothing_to_that(streams: int) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "p2pd", "--version"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE if streams == 1 else full,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    if streams == 1:
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", _every_command(), ids=" ".join)
def test_help_names_what_an_option_takes_and_no_type_of_python(words: list[str]) -> None:
    assert not re.search(r"<\w+[^>]*>", p2pd(*words, "--help").out)
