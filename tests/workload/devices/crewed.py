"""A workload for several workers, that goes wrong as a test asks for, by the seed of the job."""

from pathlib import Path

from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, TrainJob
from p2pd.workload.protocol import Devices
from tests.io.worker_bench import Scene

SAMPLES = 64
CREWED = '''
import os, signal, sys, time
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders
from p2pd.workload.learner import Callback
from p2pd.workload.contract import Trained

WAYS = {}

def at_step(number):
    def kept(way):
        WAYS[number] = way
    return kept

@at_step(1)
def killed(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

@at_step(2)
def raises(rank):
    if rank == 1:
        raise ValueError("no such luck")

@at_step(3)
def main_out_of_memory(rank):
    if rank == 0:
        raise MemoryError("step 2")

@at_step(4)
def main_killed(rank):
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)

@at_step(5)
def waits(rank):
    print("waiting", rank, flush=True)
    time.sleep(0.02)

@at_step(6)
def ends_while_main_computes(rank):
    if rank == 0:
        time.sleep(1000)
    os._exit(3)

@at_step(7)
def hangs(rank):
    if rank == 1:
        time.sleep(1000)

@at_step(8)
def not_finite(rank):
    return float("nan") if rank == 1 else 1.0

class Stopping(Callback):
    def __init__(self):
        self.steps, self.seed = 0, 0
    def lease_started(self, lease):
        self.steps, self.seed = 0, lease.seed
        print("lease of rank", lease.ranks.rank, "of", lease.ranks.size, flush=True)
    def step_done(self, step, loss):
        self.steps += 1
        print(f"step {step} loss {loss:.6f}", flush=True)
    def stops(self):
        return self.seed == 9 and self.steps == 2

def build(config):
    torch.manual_seed(1)
    inputs = torch.randn(64, 6)
    data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    layers = [nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)]
    if config.get("norm"):
        layers.insert(1, nn.BatchNorm1d(8))
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    learner = Learner(model, optimizer, scheduler, callbacks=[Stopping()],
        **{name: config[name] for name in ("accumulate", "clip_norm", "precision") if name in config})
    loader = DataLoader(data, batch_size=config.get("batch", 7), shuffle=True)
    workload = from_loaders(learner, loader, DataLoader(data, batch_size=16))
    return Going(workload, learner)

def Going(workload, learner):
    """The same, but for what the seed asks for in the third step."""
    train = workload.train
    def going(lease):
        print("built by", os.getpid(), flush=True)
        forward, steps = learner.model.forward, 0
        way = WAYS.get(lease.seed)
        def ahead(inputs):
            nonlocal steps
            steps += 1
            factor = way(lease.ranks.rank) if way and steps >= 3 else None
            return forward(inputs) * (1.0 if factor is None else factor)
        learner.model.forward = ahead
        try:
            return train(lease)
        finally:
            learner.model.forward = forward
    workload.train = going
    return workload
'''


def crewed(root: Path, workers: int, **changes: object) -> Scene:
    """A scene of so many workers on the CPU."""
    (root / "crewed_workload.py").write_text(CREWED)
    wanted = {"module": "crewed_workload", "devices": Devices(workers=workers)}
    return Scene(root, **(wanted | changes))


def job(base: ArtifactId, seed: int, *, shards: int = 4, steps: int = 0) -> TrainJob:
    """On 16 samples for each shard."""
    return TrainJob(1, base, tuple(range(shards)), 16, Progress(0, 0, 0, steps, 0), seed)
