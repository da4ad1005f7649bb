"""Several workers of one trainer, in every way that they can go well and wrong: make devices. Seconds.

On the GPUs of this machine over nccl where it has two or more, else on the CPU over gloo. Each check prints
one line; exit status 1 if one failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic

import torch
import trio

from p2pd.workload.protocol import AUTO, Devices
from tests.io.worker_bench import Scene, play, running
from tests.workload.devices.alone import alone
from tests.workload.devices.checks import (
    fails,
    job,
    nothing_is_left,
    same,
    stops_when_told,
    trains_as_one,
)
from tests.workload.devices.crewed import crewed
from tests.workload.devices.documented import own_strategy
from tests.workload.devices.real import killed_worker

GPUS = torch.cuda.device_count()
HANG_S = 6.0
LANE = "tests.workload.devices.lane"


def places(count: int, strategy: str = AUTO) -> Devices:
    if count <= GPUS > 1:
        return Devices(tuple(f"cuda:{number}" for number in range(count)), strategy=strategy)
    return Devices(workers=count, strategy=strategy)


def as_one(root: Path, workers: int, **settings: object) -> None:
    config = json.dumps({"accumulate": 2, "clip_norm": 0.5} | settings)
    scene = crewed(root, places(workers), config=config)

    async def part() -> None:
        with alone(root, config) as one:
            await trains_as_one(scene, one)
        await stops_when_told(scene)

    play(scene, part)
    assert len(scene.pids()) == workers
    nothing_is_left(scene)


def strategies(root: Path) -> None:
    """multi, and one of the user's own that rounds gradients to bfloat16."""
    (root / "own_strategy.py").write_text(own_strategy())
    for wanted, config, close in (
        (places(2, "multi"), {"accumulate": 2}, 1e-3),
        (places(2), {"strategy": "own_strategy"}, 0.05),
    ):
        text = json.dumps(config)
        scene = crewed(root, wanted, config=text)

        async def part(scene: Scene = scene, text: str = text, close: float = close) -> None:
            base = await scene.worker.initial()
            with alone(root, text) as one:
                for seed in (20, 21):
                    result = await scene.worker.train(job(base, seed))
                    done = one.train(job(base, seed), scene.shelf.path(base))
                    assert (result.samples, result.steps) == (done.samples, done.steps)
                    apart = one.apart(scene.shelf.path(result.artifact))
                    assert apart < close, f"{apart} apart"

        play(scene, part)
        nothing_is_left(scene)


def buffers(root: Path) -> None:
    """BatchNorm's are the main worker's before each step."""
    scene = crewed(root, places(2), config='{"norm": true, "batch": 6}')

    async def part() -> None:
        base = await scene.worker.initial()
        await scene.worker.train(job(base, 10))

    play(scene, part)
    means: dict[str, list[str]] = {"0": [], "1": []}
    for line in scene.lines:
        if line.startswith("mean "):
            mean, _, rank = line.removeprefix("mean ").split()
            means[rank].append(mean)
    assert len(set(means["0"])) > 5
    assert means["0"][: len(means["1"])] == means["1"]


def failures(root: Path) -> None:
    """Workers that fail, in their own words."""
    scene = crewed(root, places(2))
    raised = r"^worker 1 failed: ValueError: no such luck \(.*crewed_workload\.py:\d+\)$"

    async def part() -> None:
        await fails(scene, 2, raised)
        await fails(scene, 1, r"^worker 1 failed: its process was killed \(SIGKILL\)")
        await fails(scene, 3, "^main worker failed: MemoryError: step 2")
        await fails(scene, 8, "^worker 1 failed: the loss is nan at step 3")

    play(scene, part)
    nothing_is_left(scene)


def ends(root: Path) -> None:
    """Workers that end, or never do, while others wait or compute."""
    scene = crewed(root, places(2), train_s=HANG_S)

    async def part() -> None:
        await fails(scene, 6, "^worker 1 failed: its process ended with exit code 3")
        await fails(scene, 4, r"^main worker failed: the process .* was killed \(SIGKILL\)")
        await fails(
            scene,
            7,
            rf"^train passed its deadline of {HANG_S:g} s after \d+ steps, waiting for another worker",
        )
        base = await scene.worker.initial()
        assert (await scene.worker.train(job(base, 30))).samples == 64

    play(scene, part)
    nothing_is_left(scene)


def at_once(root: Path) -> None:
    """Two trainers of two workers each on one machine."""
    scenes = []
    for name in ("one", "other"):
        (root / name).mkdir()
        scenes.append(crewed(root / name, places(2)))

    async def train(scene: Scene) -> None:
        async with running(scene):
            base = await scene.worker.initial()
            for seed in range(20, 25):
                assert (await scene.worker.train(job(base, seed))).samples == 64

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            for scene in scenes:
                nursery.start_soon(train, scene)

    trio.run(both)
    for scene in scenes:
        nothing_is_left(scene)


def machines(root: Path) -> None:
    """One worker here and two that torchrun starts, as on another machine; these come again after an end."""
    config = '{"accumulate": 2}'
    scene = crewed(root, Devices(workers=1, listen="127.0.0.1:0", elsewhere=2), config=config)

    async def part() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.worker.info)
            at = (await scene.said("waiting at")).split()[0]
            (root / "far").mkdir()
            run = partial(trio.run_process, torchrun(at, root), check=False, cwd=root / "far")
            others = await nursery.start(run)
            base = await scene.worker.initial()
            with alone(root, config) as one:
                for seed in (20, 21):
                    await same(scene, one, job(base, seed))
            await stops_when_told(scene)
            await fails(scene, 1, "^worker [12] failed: its connection ended$")
            await others.wait()  # torchrun ends with the first of its workers that does

    play(scene, part)
    assert scene.lines[1].startswith("3 workers over gloo: ")
    assert len(scene.pids()) == 1  # what the others print is torchrun's to show


def torchrun(main: str, root: Path) -> list[str]:
    launched = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return [*launched, "-m", "p2pd.workload.devices.fellow", "--main", main, "--path", str(root)]


def small_shm(root: Path) -> None:
    """A worker that wants more shared memory than there is: in a place of its own, where there is little."""
    scene = crewed(root, places(2))

    async def part() -> None:
        await fails(scene, 11, r"^worker 1 failed: .*/dev/shm has .* free of 66 kB")

    play(scene, part)
    nothing_is_left(scene)


def apart(check: str, kinds: tuple[str, ...], *commands: str) -> Callable[[Path], None]:
    """Another check, in namespaces of its own."""

    def outside(root: Path) -> None:
        inside = f"{' && '.join(commands)} && exec {sys.executable} -m {LANE} --only {check}"
        user = ["--user", "--map-root-user"] if os.geteuid() else []
        result = subprocess.run(
            ["unshare", *user, *kinds, "sh", "-c", inside],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TMPDIR": str(root)},
        )
        assert result.returncode == 0, result.stdout + result.stderr

    return outside


NAMELESS = "hostname no.such.name.invalid", "ip link set lo up"
SMALL = ("mount -t tmpfs -o size=64k tmpfs /dev/shm",)  # over the machine's, which stays as it is
CHECKS: dict[str, Callable[[Path], None]] = {
    "two": lambda root: as_one(root, 2),
    "four": lambda root: as_one(root, 4),
    "one": lambda root: as_one(root, 1),
    "sum": lambda root: as_one(root, 2, reduction="sum", clip_norm=None),
    "strategies": strategies,
    "buffers": buffers,
    "failures": failures,
    "ends": ends,
    "at-once": at_once,
    "machines": machines,
    "network": killed_worker,
    "nameless": apart("two", ("--uts", "--net"), *NAMELESS),
    "shared": apart("small-shm", ("--mount",), *SMALL),
}
INNER: dict[str, Callable[[Path], None]] = {"small-shm": small_shm}
"""Only inside of others."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make devices", description=__doc__)
    parser.add_argument("--only", choices=[*CHECKS, *INNER], action="append", help="these checks")
    wanted = parser.parse_args().only or list(CHECKS)
    print(f"on {'nccl' if GPUS > 1 else 'gloo'}, {GPUS} GPUs", flush=True)  # noqa: T201 - what it is for
    failed = 0
    for name in wanted:
        started_s = monotonic()
        with tempfile.TemporaryDirectory() as directory:
            try:
                (CHECKS | INNER)[name](Path(directory))
                word = "ok"
            except Exception:  # noqa: BLE001 - whatever it is, the others are checked as well
                traceback.print_exc()
                word, failed = "FAILED", failed + 1
        print(f"{name:12}{word:8}{monotonic() - started_s:.1f} s", flush=True)  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
