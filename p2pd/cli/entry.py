"""The entry point: imports the module of the command that was typed, and of no other.

Exit codes: 0 done, 1 failed, 2 usage or configuration, 130 interrupted.
"""

import errno
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command

from p2pd.cli.output import unwritten
from p2pd.cli.streams import bound_screen, open_closed
from p2pd.errors import P2pError, StoreError, UsageError, advice, lines_of


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130


REFUSAL: type[Exception] = typer.BadParameter.__bases__[0]
"""All that typer says of usage; the class itself has had several homes."""
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
CLOSED = "it is closed, or open for reading alone"
PYDANTIC = "Value error, "
"""Words of a library that tell nobody anything."""
EMPTY_OPTION = re.compile(r"(--[a-z-]+)=")


@dataclass(frozen=True, slots=True)
class Command:
    module: str
    """Under p2pd.cli. A group has a Typer named `app` in it, a single command a function `command`."""
    help: str
    group: bool = False


COMMANDS = {
    "run": Command("run", "Run one node in the foreground."),
    "status": Command("status", "Watch a running node and what it sees of the network."),
    "doctor": Command("doctor", "Say what this machine has, and which roles it can play."),
    "logs": Command("logs", "Show what a node has logged, and what its workload prints."),
    "pause": Command("pause", "Have your own trainer rest, over restarts too."),
    "resume": Command("resume", "Have your own trainer work again."),
    "demo": Command("demo", "Train with a complete fleet on this machine."),
    "fleet": Command("fleet", "Start, stop or watch the nodes of a fleet file.", group=True),
    "id": Command("identity", "Show this node's key; make one if there is none."),
    "network": Command("network", "Create or show the genesis of a network.", group=True),
    "experiment": Command("experiment", "Publish or list revisions.", group=True),
    "data": Command("data", "Write a data set as shard files, or check them.", group=True),
    "heads": Command("heads", "List, show, verify or export certified heads.", group=True),
    "workload": Command("workload", "Examine a workload.", group=True),
    "train": Command("train", "Train a workload alone, without a network."),
    "config": Command(
        "config", "Check a configuration, or show it as it takes effect.", group=True
    ),
    "bench": Command("bench", "Measure what this machine does, beside floors of the same run."),
    "sim": Command("sim", "Run whole fleets in virtual time, with faults, from a seed."),
}
"""With their help, so that `p2pd --help` imports none of them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits."""
    open_closed()
    bound_screen()
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        # What its encoding lacks is escaped, in JSON rightly so.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(words)
    except (P2pError, OSError, BaseExceptionGroup) as error:
        code = _explained(error)
    lost = unwritten(sys.stdout)
    if lost is not None and code == ExitCode.DONE:
        code = _explained(lost)
    unwritten(sys.stderr)
    raise SystemExit(code)


def _run(words: list[str]) -> int:
    _refuse_empty(words)
    # The options of p2pd itself take no values, so the first other word is the command.
    wanted = next((word for word in words if not word.startswith("-")), None)
    command = get_command(_application(wanted))
    _hide_types(command)
    try:
        code = command.main(words or ["--help"], prog_name="p2pd", standalone_mode=False)
    except REFUSAL as refusal:
        name = f"p2pd {wanted}" if wanted in COMMANDS else "p2pd"
        raise UsageError(_in_a_line(cast("typer.BadParameter", refusal), name)) from refusal
    except typer.Abort:
        return ExitCode.INTERRUPTED
    return (code or ExitCode.DONE) if words else ExitCode.USAGE


def _hide_types(command: object) -> None:
    """Arguments are named for what they are; typer would put the types of Python beside them."""
    if isinstance(command, TyperGroup):
        for one in command.commands.values():
            _hide_types(one)
    elif isinstance(command, TyperCommand):
        for parameter in command.params:
            if isinstance(parameter, TyperArgument):
                parameter.display_type_rich = _no_type  # type: ignore[method-assign]  # of this one


def _no_type(ctx: object) -> None:
    del ctx


def _refuse_empty(words: list[str]) -> None:
    """An empty word is a script's variable that was not set: as a path it would be the working directory."""
    for before, word in zip(["", *words], words, strict=False):
        option = EMPTY_OPTION.fullmatch(word)
        if word == "" or option:
            name = option[1] if option else before if before.startswith("-") else "an argument"
            raise UsageError(f"{name} is empty: give a value, or leave it out")


def _in_a_line(refusal: typer.BadParameter, name: str) -> str:
    """What typer says in four lines."""
    said = " ".join(refusal.format_message().split()).rstrip(".").replace(PYDANTIC, "")
    where = refusal.ctx.command_path if refusal.ctx else name
    return f"{said[:1].lower()}{said[1:]}: see {where} --help"


def _explained(error: BaseException) -> int:
    """Says what went wrong, and how to exit; raises what is a bug of ours."""
    # What a task raised comes wrapped once for each nursery that it passed.
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return ExitCode.FAILED
    if isinstance(error, OSError):
        error = _named(error)
    if not isinstance(error, P2pError):
        raise error
    for line in lines_of(error):
        _complain(line)
    return ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED


def _named(error: OSError) -> Exception:
    """What happened to a file or to a stream, as a line about it; any other is a bug of ours."""
    if error.filename is not None:
        kind = UsageError if error.errno == errno.ENAMETOOLONG else StoreError
        return kind(f"{os.fsdecode(error.filename)}: {advice(error)}")
    if error.errno in UNWRITABLE:  # files have names: this is a stream
        why = CLOSED if error.errno == errno.EBADF else error.strerror
        return StoreError(f"standard output cannot be written: {why}: write it elsewhere")
    return error


def _complain(line: str) -> None:
    with suppress(OSError):  # nobody can be told that nobody can be told
        sys.stderr.write(f"p2pd: {line}\n")
        sys.stderr.flush()


def _application(wanted: str | None) -> typer.Typer:
    application = typer.Typer(
        help="Decentralized training for PyTorch.",
        add_completion=False,
        rich_markup_mode=None,  # rich takes longer to import than all the rest
        pretty_exceptions_enable=False,
    )
    application.callback()(_options)
    for name, command in COMMANDS.items():
        if name != wanted:
            application.command(name, help=command.help)(_not_loaded)
            continue
        content = vars(import_module(f"p2pd.cli.{command.module}"))
        if command.group:
            application.add_typer(content["app"], name=name, help=command.help)
        else:
            words = content.get("EPILOG")
            application.command(name, help=command.help, epilog=words)(content["command"])
    return application


def _not_loaded() -> None:
    """Stands in the help for a command that was not typed."""


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version  # noqa: PLC0415 - only who asks pays for it

        typer.echo(f"p2pd {version('p2pd-fleet')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    del version  # its callback has done all
