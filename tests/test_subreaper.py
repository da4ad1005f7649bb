"""Nothing of a kept process is left. What is left would hold standard error, which then never ends."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from p2pd.daemon.processes import lives

LIMIT_S = 30

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no subreapers elsewhere")

KEPT = """
import os, signal, subprocess, sys, time
from p2pd.lifeline import end_with
from p2pd.subreaper import keep
keep(int(sys.argv[1]), ())
nested = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)"
daemonized = subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
daemonized.wait()
sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(sleeper.pid, flush=True)
"""
WAIT = "time.sleep(1000)"
UNKEPT = KEPT.replace("keep(int(sys.argv[1]), ())", "end_with(int(sys.argv[1]))")


def start(script: str, parent: int | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", script, str(parent or os.getpid())]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("os._exit(255)", 255),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.kill(os.getpid(), 40)", -40),
    ],
)
def test_what_a_process_started_ends_with_it_and_its_end_is_seen(end: str, status: int) -> None:
    with start(KEPT + end) as process:
        said, complaints = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, complaints) == (status, b"")
    assert not lives(int(said))


def test_without_a_keeper_it_is_left() -> None:
    with start(UNKEPT + "os._exit(3)") as process:
        assert process.stdout is not None
        sleeper = int(process.stdout.readline())
        assert process.wait(LIMIT_S) == 3
        assert lives(sleeper)
        left = [sleeper, *(pid for pid in _holders(process) if pid != sleeper)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT_S)


def _holders(process: subprocess.Popen[bytes]) -> list[int]:
    """Who else has its standard error."""
    assert process.stderr is not None
    pipe = Path(f"/proc/self/fd/{process.stderr.fileno()}").readlink()
    found = []
    for error in Path("/proc").glob("[0-9]*/fd/2"):
        with suppress(OSError):
            if error.readlink() == pipe:
                found.append(int(error.parts[2]))
    return found


def test_it_ends_with_all_when_its_keeper_is_told_to() -> None:
    with start(KEPT + WAIT) as process:
        assert process.stdout is not None
        sleeper = int(process.stdout.readline())
        process.terminate()
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGTERM
    assert not lives(sleeper)


def test_it_ends_with_all_when_its_parent_is_killed() -> None:
    script = "import subprocess, sys, os; subprocess.Popen([sys.executable, '-c', {!r}, str(os.getpid())]).wait()"
    with start(script.format(KEPT + WAIT)) as parent:
        assert parent.stdout is not None
        sleeper = int(parent.stdout.readline())
        parent.kill()
        parent.communicate(timeout=LIMIT_S)
    assert not lives(sleeper)
