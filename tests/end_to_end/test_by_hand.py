"""The files of configs/local, used the way a person does, one command after another."""

import json
import re
import shutil
import signal
import socket
from functools import partial
from pathlib import Path

import trio

from p2pd.daemon.processes import status_of
from tests.end_to_end.commands import begin, p2pd
from tests.end_to_end.fleet_bench import until
from tests.end_to_end.processes import naming

CONFIGS = Path(__file__).parents[2] / "configs"
LIMIT_S = 150.0
END_HEADS, LATER = 2, 4
RUN = ("seed", "validator1", "trainer1", "viewer")
"""Of those in configs/local."""
ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")


def copy_with_free_ports(directory: Path) -> None:
    """configs/ as it is, but for the ports."""
    shutil.copytree(CONFIGS, directory / "configs")
    free: dict[str, int] = {}
    sockets = []
    for path in sorted((directory / "configs" / "local").glob("*.toml")):
        for port in ADDRESS.findall(path.read_text()):
            if port not in free:
                taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                taken.bind(("127.0.0.1", 0))
                sockets.append(taken)
                free[port] = taken.getsockname()[1]
    for taken in sockets:
        taken.close()
    for path in (directory / "configs" / "local").glob("*.toml"):
        text = ADDRESS.sub(lambda found: f"127.0.0.1:{free[found[1]]}", path.read_text())
        path.write_text(text)


def key(directory: Path, name: str) -> str:
    ran = p2pd("id", "--data-dir", f"local/{name}", "--json", directory=directory)
    assert ran.code == 0, ran.err
    text: str = json.loads(ran.out)["public_key"]
    return text


def found_and_publish(directory: Path) -> None:
    key(directory, "authority")
    words: list[object] = ["--name", "lab", "--authority", "local/authority"]
    words += ["--validator", key(directory, "validator1")]
    words += ["--out", "local/genesis"]
    ran = p2pd("network", "create", *words, directory=directory)
    assert ran.code == 0, ran.err
    words = ["--genesis", "local/genesis", "--authority", "local/authority"]
    words += ["--out", "local/revision"]
    words += ["--workload", "p2pd.workloads.digits", "--study", "lab"]
    words += ["--experiment", "digits", "--name", "r1"]
    words += ["--set", "schedule.settle_s=0.2", "--set", "schedule.check_limit_s=10"]
    # All that makes updates and heads small, and all that is certified beside a head.
    for small in ("update.codec=int4", "update.head_codec=int8", "outer.rule=nesterov"):
        words += ["--set", small]
    words += ["--set", f"schedule.end_heads={END_HEADS}"]
    ran = p2pd("experiment", "publish", *words, directory=directory)
    assert ran.code == 0, ran.err


def extend(directory: Path) -> None:
    """Through a node that neither votes nor trains."""
    words: list[object] = ["--genesis", "local/genesis", "--authority", "local/authority"]
    words += ["--record", "local/revision", "--data-dir", "local/viewer"]
    ran = p2pd("experiment", "extend", *words, "--end-heads", LATER, directory=directory)
    assert ran.code == 0, ran.err


def test_the_local_network_trains_to_its_end_and_beyond_when_it_is_started_by_hand(
    tmp_path: Path,
) -> None:
    copy_with_free_ports(tmp_path)
    found_and_publish(tmp_path)
    nodes = {
        name: begin(
            *("run", "--config", tmp_path / "configs" / "local" / f"{name}.toml"),
            output=tmp_path / f"{name}.txt",
        )
        for name in RUN
    }

    async def are_done(heads: int) -> bool:
        for name, process in nodes.items():
            assert process.poll() is None, (tmp_path / f"{name}.txt").read_text()
            status = await trio.to_thread.run_sync(status_of, tmp_path / "local" / name)
            revisions = status["revisions"] if status else []
            # A seed need not know what the others work on.
            done = [one for one in revisions if one["plan"] == "finished"]
            if name != "seed" and [one["heads"] for one in done] != [heads]:
                return False
        return True

    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            await until("all have come to the end", partial(are_done, END_HEADS))
            await trio.to_thread.run_sync(extend, tmp_path)
            await until("all have come to the later end", partial(are_done, LATER))

    try:
        trio.run(main)
        for process in nodes.values():
            process.send_signal(signal.SIGINT)
        assert {name: process.wait(10) for name, process in nodes.items()} == dict.fromkeys(RUN, 0)
    finally:
        for process in nodes.values():
            process.kill()
            process.wait()
    assert naming(tmp_path) == []
