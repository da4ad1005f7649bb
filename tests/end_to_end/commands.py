"""The command line as its user runs it: as a process."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 150.0


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Of standard error: what a person reads."""
        return self.err.splitlines()


def p2pd(*words: object, directory: Path | None = None) -> Ran:
    done = subprocess.run(
        command(*words), capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=directory
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "p2pd.cli", *map(str, words)]


def begin(*words: object, output: Path) -> subprocess.Popen[bytes]:
    """The same in the background, in a session of its own as a terminal gives it."""
    with output.open("ab") as file:
        return subprocess.Popen(
            command(*words),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C."""
    process.send_signal(signal.SIGINT)
