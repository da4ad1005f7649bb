import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from p2pd.core.encoding import decode, encode
from p2pd.workload.protocol import BuildCall, Call, Failure, Outcome, Request
from p2pd.workload.serve import Server


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path / "users_workload.py"


BUILD = Request(7, Call.BUILD, encode(BuildCall("users_workload", "{}", 1)))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (r"raise ValueError('\udcff\udc80')", r"ValueError: \udcff\udc80 ({path}:1)"),
        ("class Odd(BaseException): ...\nraise Odd('base')", "Odd: base ({path}:2)"),
        ("raise GeneratorExit", "GeneratorExit ({path}:1)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt ({path}:1)"),
        (
            "import sys\nsys.exit(3)",
            "it called sys.exit(3): have it return, or raise what is wrong ({path}:2)",
        ),
        ("import sys\nsys.stdout.close()\nraise ValueError(1)", "ValueError: 1 ({path}:3)"),
        ("import sys\nsys.stderr.close()\nraise ValueError(1)", "ValueError: 1 ({path}:3)"),
        ("import sys\nsys.stdout = None\nraise ValueError(1)", "ValueError: 1 ({path}:3)"),
        ("import os\nos.unlink(__file__)\nimport no_such_one", "ModuleNotFoundError: No module"),
    ],
)
def test_whatever_the_users_code_does_its_own_failure_is_what_is_answered(
    users: Path, source: str, said: str
) -> None:
    users.write_text(source + "\n")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # which it may close
        answer = Server(-1, -1, -1)._answer(BUILD)
    assert (answer.number, answer.outcome) == (7, Outcome.FAILED)
    assert decode(Failure, answer.body).message.startswith(said.format(path=users))


def test_a_traceback_begins_in_the_users_code(users: Path) -> None:
    users.write_text("import json\ndef build(config):\n    return json.loads('{')\n")
    with redirect_stderr(io.StringIO()) as printed:
        Server(-1, -1, -1)._answer(BUILD)
    _, first, *_, last = printed.getvalue().splitlines()
    assert first == f'  File "{users}", line 3, in build'
    assert last.startswith("json.decoder.JSONDecodeError: Expecting")
