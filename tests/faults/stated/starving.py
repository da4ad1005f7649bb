"""A workload in a control group that has less memory than it wants: the kernel kills it. Linux, as root."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from p2pd.errors import WorkloadError
from tests.faults.stated.seen import Seen
from tests.io.worker_bench import Scene, job, play

INSIDE = "P2PD_TEST_CONTROL_GROUP"
LIMIT_BYTES = 900 * 10**6
ROOTS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)
"""Of cgroup v1 and v2."""
SAID = "was killed (SIGKILL) by the kernel: out of memory, its control group may hold 900 MB: use smaller"
GROWING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders

def loss(outputs, targets):
    held = []
    while True:
        held.append(torch.ones(2**24))

def build(config):
    model = torch.nn.Linear(2, 2)
    loader = DataLoader(TensorDataset(torch.zeros(64, 2), torch.zeros(64).long()), batch_size=4)
    return from_loaders(Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss), loader, loader)
"""


def starving(directory: Path) -> Seen:
    """F8: the same process once more, in a group of its own."""
    if INSIDE in os.environ:
        return _starve(directory)
    with _group() as group:
        words = [sys.executable, "-m", "tests.faults.lane", "--only", "F8"]
        done = subprocess.run(
            ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *words],
            env={**os.environ, INSIDE: str(group)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    seen = Seen()
    seen.note(
        done.stdout.strip()[11:] or f"exit status {done.returncode}", right=done.returncode == 0
    )
    return seen


@contextmanager
def _group() -> Iterator[Path]:
    root, limit = next((root, limit) for root, limit in ROOTS if root.is_dir())
    group = root / f"p2pd-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(LIMIT_BYTES))
        yield group
    finally:
        group.rmdir()


def _starve(directory: Path) -> Seen:
    (directory / "growing_workload.py").write_text(GROWING)
    scene, said = Scene(directory, module="growing_workload"), [""]

    async def part() -> None:
        base = await scene.worker.initial()
        try:
            await scene.worker.train(job(base, 0))
        except WorkloadError as error:
            said[0] = str(error)

    play(scene, part)
    seen = Seen()
    seen.note(
        said[0].removeprefix("the process of workload growing_workload "), right=SAID in said[0]
    )
    return seen
