"""Nodes as processes of their own: started, asked, and ended with all that they started."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.errors import P2pError
from p2pd.io.control import ask

LEAVE_S = 12.0
"""A node leaves within ten seconds; one that does not is killed."""
ASK_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeProcess:
    name: str
    data_dir: Path
    process: subprocess.Popen[bytes]

    @property
    def running(self) -> bool:
        return self.process.poll() is None


def start_node(
    name: str,
    config: Path,
    data_dir: Path,
    output: Path,
    *,
    tied: bool,
    under: tuple[str, ...] = (),
) -> NodeProcess:
    """Starts `p2pd run`, below another command if one is given.

    A tied node dies with this process; another outlives it.
    """
    command = [*under, sys.executable, "-m"]
    command += ["p2pd.daemon.tied", str(os.getpid())] if tied else ["p2pd.cli", "run", "--config"]
    command.append(str(config))
    with output.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # A session of its own: Ctrl-C in the terminal is for the parent to handle.
            start_new_session=True,
        )
    return NodeProcess(name, data_dir, process)


def status_of(data_dir: Path) -> dict[str, Any] | None:
    """What a node says of itself; None while it does not answer."""
    try:
        return ask(data_dir, {"call": "status"}, ASK_S)
    except P2pError:
        return None


async def stop_nodes(nodes: list[NodeProcess]) -> None:
    """Asks all to leave, and kills what has not left in time. No process is left."""
    for node in nodes:
        if node.running:
            node.process.terminate()
    with trio.move_on_after(LEAVE_S, shield=True):
        for node in nodes:
            await trio.to_thread.run_sync(node.process.wait, abandon_on_cancel=True)
    for node in nodes:
        if node.running:
            os.killpg(node.process.pid, signal.SIGKILL)
            node.process.wait()


def last_words(output: Path) -> str:
    """The last line that a node printed: why it ended, most likely."""
    return last_line(output) or "it printed nothing"


def last_line(file: Path) -> str:
    """Empty where there is none, or no file that can be read."""
    try:
        lines = file.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def lives(pid: int) -> bool:
    """Whether a process still runs; one that has ended and was not reaped does not. Source: proc(5)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has just ended, or this is no Linux
        return not Path("/proc/self").exists()
    return state not in "ZX"
