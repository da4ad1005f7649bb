"""A real network whose trainer has two workers: one of them is killed, then the trainer itself. Seconds."""

import os
import signal
from pathlib import Path

import trio

from tests.end_to_end.fleet_bench import Bench, build_digits, found, open_bench, until
from tests.end_to_end.processes import Process, gone, processes, worker_of

LIMIT_S = 200.0
FELLOW = "p2pd.workload.devices.fellow"


class Crewed(Bench):
    """Trainers have two workers on the CPU each."""

    def configure(self, name: str, role: str, *, seeds: tuple[str, ...] | None = None) -> Path:
        config = super().configure(name, role, seeds=seeds)
        if role == "trainer":
            with config.open("a") as file:
                file.write("\n[trainer]\ndevices = 2\n")
        return config


async def fellow_of(pid: int) -> Process:
    """The fellow of the worker of a node, once there is one."""

    async def check() -> Process | None:
        await trio.lowlevel.checkpoint()
        main = worker_of(pid)
        started = (one for one in processes().values() if main and one.parent == main.pid)
        return next((one for one in started if FELLOW in one.command), None)

    return await until("the trainer has a second worker", check)


async def network(root: Path) -> None:
    """The trainer goes on, with new workers, and says what happened; nothing is left of it in the end."""
    (root / "built").mkdir()
    founded = found(root, await build_digits(root / "built"), lease_shards=40)
    async with open_bench(founded) as plain:
        bench = Crewed(plain.founded)
        bench.nodes = plain.nodes
        await bench.start_seed()
        bench.start("validator1", "validator")
        trainer = bench.start("trainer1", "trainer")
        await bench.promotes("validator1", 2)
        status = await bench.answers("trainer1")
        assert status["devices"] == "2 x cpu", status["devices"]
        fellow = await fellow_of(trainer.process.pid)
        os.kill(fellow.pid, signal.SIGKILL)

        async def named() -> bool:
            await trio.lowlevel.checkpoint()
            return "worker 1 failed: its process was killed (SIGKILL)" in bench.said("trainer1")

        await until("the trainer says which worker died", named, limit_s=30.0)
        heads = (await bench.revision("validator1"))["heads"]
        await bench.promotes("validator1", heads + 2)
        assert trainer.running
        assert "2 workers over gloo: 2 x cpu" in bench.said("trainer1")
        another = await fellow_of(trainer.process.pid)
        both = [another, processes()[another.parent]]
        bench.kill("trainer1")
        await gone("workers of a killed trainer", both)

        trainer = bench.start("trainer1", "trainer")
        another = await fellow_of(trainer.process.pid)
        trainer.process.terminate()
        assert await bench.ended("trainer1") == 0
        await gone("workers of a trainer that left", [another])


def killed_worker(root: Path) -> None:
    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            await network(root)

    trio.run(main)
