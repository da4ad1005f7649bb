"""A role with mistakes in it, as a package that an operator installs: what its node says of them."""

import json
from pathlib import Path

import trio

from tests.end_to_end.fleet_bench import Bench, Built, found, open_bench

LIMIT_S = 120.0
CODE = """
import time
from roles.passive import Follower


class Clumsy(Follower):
    ticks = 0

    def start(self, now_s):
        self.due_s = now_s + 1.0
        return []

    def next_deadline_s(self):
        return self.due_s

    def tick(self, now_s):
        self.ticks += 1
        self.due_s = now_s + 3.0
        if self.ticks == 2:
            raise ZeroDivisionError("a mistake")
        self.ponder(time.monotonic() + 2.0)
        return []

    def ponder(self, until_s):
        while time.monotonic() < until_s:
            pass


class ClumsyPlugin:
    name = "clumsy"
    needs_worker = False
    needs_math = False
    offers = ("viewer",)

    def at(self, services):
        return Clumsy("pondering")
"""


def install(directory: Path) -> dict[str, str]:
    """The environment in which p2pd finds the role."""
    information = directory / "clumsy-1.0.dist-info"
    information.mkdir(parents=True)
    (directory / "clumsy_role.py").write_text(CODE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: clumsy\nVersion: 1.0\n")
    entry = "[p2pd.roles]\nclumsy = clumsy_role:ClumsyPlugin\n"
    (information / "entry_points.txt").write_text(entry)
    return {"PYTHONPATH": str(directory)}


class Settings(Bench):
    """Of the log."""

    def configure(self, name: str, role: str, *, seeds: tuple[str, ...] | None = None) -> Path:
        config = Bench.configure(self, name, role, seeds=seeds)
        with config.open("a") as file:
            file.write('\n[log]\nformat = "json"\nstall_s = 0.5\n')
        return config


def test_i12_a_role_that_blocks_is_named_with_its_stack_and_one_that_fails_ends_its_node(
    tmp_path: Path, built: Built
) -> None:
    founded = found(tmp_path, built)

    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            async with open_bench(founded) as plain:
                bench = Settings(plain.founded)
                bench.nodes = plain.nodes
                installed = install(founded.directory / "installed")
                bench.start("clumsy", "clumsy", environment=installed)
                assert await bench.ended("clumsy") == 1

    trio.run(main)
    log = (founded.data_dir("clumsy") / "log").read_text().splitlines()
    lines = [json.loads(line) for line in log]
    stalls = [one for one in lines if "holds up the event loop" in one["message"]]
    assert any("in ponder" in stall["stack"] for stall in stalls)
    assert any(one["message"].startswith("the event loop goes on after ") for one in lines)
    assert lines[-1]["message"] == "task role clumsy failed: ZeroDivisionError: a mistake"
    assert "in tick" in lines[-1]["traceback"]
    assert sum("traceback" in one for one in lines) == 1
