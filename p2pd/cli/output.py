"""What commands write to standard output: lines for people, one JSON value for scripts."""

import json
import os
import sys
from typing import Annotated, TextIO

import typer

from p2pd.errors import printable

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for scripts.")]


def say(*lines: str) -> None:
    # Flushed here: whoever reads may have gone, and this is where that is handled quietly.
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def warn(line: str) -> None:
    sys.stderr.write(f"p2pd: warning: {printable(line)}\n")


def progress(line: str) -> None:
    """On its way to a result: not part of what a command writes to standard output."""
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()


def say_json(value: object) -> None:
    say(json.dumps(value, allow_nan=False, ensure_ascii=False))


def group() -> typer.Typer:
    """A command with subcommands."""
    return typer.Typer(rich_markup_mode=None)


def unwritten(stream: TextIO) -> OSError | None:
    """Why the rest of what was written to a stream cannot be; it is dropped then.

    Otherwise the interpreter would try once more at its end, and complain in its own words.
    """
    try:
        stream.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return error
    return None
