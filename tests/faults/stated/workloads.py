"""Bad workloads on real daemons: each is said in one line, its lease comes back, and the daemon goes on. Seconds."""

import os
import re
import subprocess
import sys
from pathlib import Path
from time import monotonic

import trio

from p2pd.daemon.processes import last_line
from tests.end_to_end.fleet_bench import Bench, Founded, build_revision, found, until
from tests.faults.stated.seen import ROOT, Seen, all_run
from tests.faults.stated.ways import BROKEN, EVALUATE, WAYS_FILE
from tests.io.worker_bench import Scene, job, play

NAUGHTY = "tests.faults.stated.naughty"
SMALL = "P2PD_TEST_SMALL_SHM"
MEMORY_BYTES = 4 * 2**30
TRAIN_S = 8.0
LINE = r"naughty\.py:\d+"
SAID = {
    "raise": rf"RuntimeError: größer \\udcff \\x1b\[2J数 \(.*{LINE}\)",
    "exit": rf"it called sys\.exit\(4\): have it return, or raise what is wrong \(.*{LINE}\)",
    "end": r"ended with exit code 7",
    "loop": rf"train passed its deadline of 8 s after \d+ steps, in one step for \d+ s at .*{LINE}, and",
    "grow": r"MemoryError: out of memory, it may hold 4\.3 GB \(worker\.memory_bytes\): use smaller",
    "share": r"/dev/shm has [\d.]+ [kM]?B free of 1\.0 MB, and processes of a data loader pass batches",
    "fill": r"OSError: \[Errno 28\] No space left on device: .*free some space",
    "hang": rf"train passed its deadline of 8 s after \d+ steps, waiting for the data loader for \d+ s at .*{LINE}",
    "crash": rf"crashed \(SIGSEGV\) in native code at .*{LINE}",
    "close": r"closed the descriptors that it answers through",
    "nan": r"the loss is nan at step \d+ of the lease",
}
HARMLESS = ("print", "fork", "leave")


class Limited(Bench):
    """With limits of the worker."""

    def configure(self, name: str, role: str, *, seeds: tuple[str, ...] | None = None) -> Path:
        config = Bench.configure(self, name, role, seeds=seeds)
        limits = f"[worker]\nmemory_bytes = {MEMORY_BYTES}\ntrain_s = {TRAIN_S}\n"
        config.write_text(config.read_text().replace("[worker]\n", limits))
        return config


def naughty(directory: Path) -> Seen:
    """In a mount namespace of its own, with a /dev/shm of a megabyte."""
    if SMALL in os.environ:
        return trio.run(_play, directory)
    command = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    words = [sys.executable, "-m", "tests.faults.lane", "--only", "F7"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, "sh", *words],
        env={**os.environ, SMALL: "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    seen = Seen()
    for figure in done.stdout.strip()[11:].split("; "):
        seen.note(figure.removeprefix("!! "), right=not figure.startswith("!! "))
    seen.note(f"exit status {done.returncode}", right=done.returncode == 0)
    return seen


async def _play(directory: Path) -> Seen:
    seen = Seen()
    os.environ["PYTHONPATH"] = str(ROOT)
    built = await build_revision(directory, NAUGHTY, shard_samples=16)
    founded = found(directory, built, lease_shards=10, deadline_s=30.0)
    bench = Limited(founded)
    files = {name: directory / name for name in ("training", "evaluating")}
    for file in files.values():
        file.write_text("")
    try:
        bench.start("validator1", "validator", environment={EVALUATE: str(files["evaluating"])})
        node = (await bench.answers("validator1"))["node"]
        bench.seeds = (f"{node['peer']}@{node['address']}",)
        bench.start("trainer1", "trainer", environment={WAYS_FILE: str(files["training"])})
        bench.start("trainer2", "trainer", environment={BROKEN: "1"})
        await bench.promotes("validator1", 2)
        broken = await _shown(bench, "trainer2", r"ModuleNotFoundError: No module named 'no_such")
        seen.note(f"import error: {broken}", right=broken == "said")
        bench.kill("trainer2")
        await _train(seen, bench, files["training"])
        files["evaluating"].write_text("raise")
        shown = await _shown(bench, "validator1", r"RuntimeError: größer")
        seen.note(f"evaluating: {shown}", right=shown == "said")
        await _goes_on(bench)
        seen.note("all daemons run", right=all_run(bench, "trainer2"))
    finally:
        bench.close()
    log = (founded.data_dir("trainer1") / "log").read_text()
    logged = [way for way, said in SAID.items() if re.search(f"is not trained: .*{said}", log)]
    seen.note(f"{len(logged)} of {len(SAID)} in the log", right=len(logged) == len(SAID))
    printed = last_line(founded.data_dir("trainer1") / "worker.log")
    sizes = _sizes(founded)
    seen.note(f"{sizes} bytes of what was printed", right=bool(printed) and sizes < 9 * 2**20)
    return seen


async def _train(seen: Seen, bench: Bench, ways: Path) -> None:
    said = 0
    for way, words in SAID.items():
        await trio.Path(ways).write_text(way)
        shown = await _shown(bench, "trainer1", words)
        said += shown == "said"
        if shown != "said":
            seen.note(f"{way}: {shown}", right=False)
        await _goes_on(bench)
    seen.note(f"{said} of {len(SAID)} in the status", right=said == len(SAID))
    for way in HARMLESS:
        await trio.Path(ways).write_text(way)
        await until(f"{way} has happened", lambda: _reads(ways, ""))
        await _goes_on(bench)
    trouble = (await bench.answers("trainer1"))["node"]["degraded"]
    seen.note(f"{len(HARMLESS)} harmless ways, {len(trouble)} troubles", right=not trouble)


async def _shown(bench: Bench, name: str, words: str) -> str:
    """Waits until the status of a node says so of its workload, in one line."""
    seen: dict[str, None] = {}

    async def there() -> bool:
        degraded = (await bench.answers(name))["node"]["degraded"]
        lines = [line for line in degraded if line.startswith("workload: ")]
        seen.update(dict.fromkeys(lines))
        return any(re.search(words, line) and line.isprintable() for line in lines)

    try:
        await until(f"{name} says {words}", there, 40.0)
    except AssertionError:
        return f"not said, but {list(seen)}"
    return "said"


async def _goes_on(bench: Bench) -> None:
    """A head is promoted, and the trainer has no trouble any more."""
    heads = (await bench.revision("validator1"))["heads"]
    await bench.promotes("validator1", heads + 1)

    async def well() -> bool:
        return not (await bench.answers("trainer1"))["node"]["degraded"]

    await until("all is well", well)


async def _reads(file: Path, text: str) -> bool:
    return await trio.Path(file).read_text() == text


def _sizes(founded: Founded) -> int:
    return sum(one.stat().st_size for one in founded.data_dir("trainer1").glob("worker.log*"))


FORKING = """
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from p2pd import Learner, from_loaders

class Products(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, place):
        return (torch.ones(256, 256) @ torch.ones(256, 256))[0, :4] / 256, place % 2

def loss(outputs, targets):
    torch.ones(512, 512) @ torch.ones(512, 512)  # in many threads, before the next processes are forked
    return functional.cross_entropy(outputs, targets)

def build(config):
    model = nn.Linear(4, 2)
    loader = DataLoader(Products(), batch_size=4, num_workers=2)
    return from_loaders(Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss), loader, loader)
"""
LEASES = 100


def forking(directory: Path) -> Seen:
    """F1: torch computes in two threads, and processes of a data loader are forked, for a hundred leases."""
    (directory / "forking_workload.py").write_text(FORKING)
    scene = Scene(directory, module="forking_workload", threads=2, train_s=20.0)
    seen, done = Seen(), [0]

    async def part() -> None:
        base = await scene.worker.initial()
        for number in range(LEASES):
            done[0] += (await scene.worker.train(job(base, number))).samples == 16

    start_s = monotonic()
    play(scene, part, limit_s=300.0)
    seen.note(
        f"{done[0]} of {LEASES} leases in {monotonic() - start_s:.0f} s", right=done[0] == LEASES
    )
    return seen
