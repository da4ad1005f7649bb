"""Runs a command as its user would, in this process."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest

from p2pd.cli import main


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output, strictly parsed."""
        return json.loads(self.out, parse_constant=_refuse)


def p2pd(*arguments: object) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return Ran(code or 0, out.getvalue(), err.getvalue())


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
