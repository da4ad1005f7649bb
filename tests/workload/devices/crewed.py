"""A workload for several workers, that goes wrong as a test asks for, by the seed of the job."""

from pathlib import Path

from p2pd.workload.protocol import Devices
from tests.io.worker_bench import Scene

CREWED = '''
import importlib, os, signal, sys, time
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders
from p2pd.workload.learner import Callback
from p2pd.workload.contract import Trained

WAYS = {}
MODELS = []

def say(*words):
    """In one piece, whoever else writes."""
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

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
    say("waiting", rank)
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

@at_step(11)
def wants_shared_memory(rank):
    if rank == 1:
        torch.ones(2**20).share_memory_()

@at_step(10)
def tells(rank):
    norm = next(part for part in MODELS[-1] if isinstance(part, nn.BatchNorm1d))
    say(f"mean {norm.running_mean.sum().item():.9f} of {rank}")

class Stopping(Callback):
    def __init__(self):
        self.steps, self.seed = 0, 0
    def lease_started(self, lease):
        self.steps, self.seed = 0, lease.seed
        say("lease of rank", lease.ranks.rank, "of", lease.ranks.size)
    def step_done(self, step, loss):
        self.steps += 1
        say(f"step {step} loss {loss:.6f}")
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
    MODELS.append(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    if config.get("reduction") == "sum":
        loss = lambda outputs, targets: functional.cross_entropy(outputs, targets, reduction="sum")
    else:
        loss = functional.cross_entropy
    strategy = importlib.import_module(config["strategy"]).InHalf() if "strategy" in config else None
    learner = Learner(model, optimizer, scheduler, loss, callbacks=[Stopping()], strategy=strategy,
        **{name: config[name] for name in ("accumulate", "clip_norm", "precision", "reduction") if name in config})
    loader = DataLoader(data, batch_size=config.get("batch", 7), shuffle=True)
    workload = from_loaders(learner, loader, DataLoader(data, batch_size=16))
    return going_wrong(workload, learner)

def going_wrong(workload, learner):
    """The same, but for what the seed asks for in the third step."""
    train = workload.train
    def going(lease):
        say("built by", os.getpid())
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


def crewed(root: Path, devices: int | Devices, **changes: object) -> Scene:
    """A scene of so many workers on the CPU, or on these devices."""
    (root / "crewed_workload.py").write_text(CREWED)
    wanted = Devices(workers=devices) if isinstance(devices, int) else devices
    return Scene(root, module="crewed_workload", devices=wanted, **changes)
