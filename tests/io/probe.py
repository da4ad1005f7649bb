"""A workload that goes wrong in every way that a test asks for, by the seed of the job."""

PROBE = '''
import os, signal, subprocess, sys, time
import torch
from torch.utils.data import DataLoader
from p2pd import Workload
from p2pd.workload.contract import Evaluated, Trained
from p2pd.workload.state import load_into, schema_of, state_of

def build(config):
    print("built by", os.getpid())
    return Probe()

def grow(lease):
    held = []
    while True:
        held.append(bytes(2**28))  # not touched: it takes no time

def fork(lease):
    os.fork()
    lease.pause()  # in both

def leave_behind(lease):
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    os.chdir("/")

def print_much(lease):
    os.write(1, bytes(range(256)) * 2**12)
    print("größer")

def fill_disk(lease):
    with open("/dev/full", "w") as file:
        file.write("x")

def write_own(lease):
    with open("own.txt", "w") as file:
        file.write("mine")

def raise_odd(lease):
    raise ValueError("größer\\udcff \\x1b[31m")

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, place):
        if place > 2:
            time.sleep(1000)  # hangs
        return place

def hang_in_loader(lease):
    for batch in DataLoader(Slow()):
        lease.pause()

WAYS = {
    12: lambda lease: sys.exit(4),
    13: lambda lease: (os.closerange(3, 200), lease.pause()),
    14: fork,
    15: leave_behind,
    16: grow,
    17: lambda lease: torch.zeros(2**33),
    18: print_much,
    19: hang_in_loader,
    20: lambda lease: os.kill(os.getpid(), signal.SIGSEGV),
    22: fill_disk,
    23: write_own,
    24: raise_odd,
}

class Probe(Workload):
    """What it does in a lease is chosen by the seed of the job."""
    metric = "nothing"
    higher_is_better = True
    train_samples = 64
    validation_samples = 8

    def __init__(self):
        self.model = torch.nn.Linear(2, 1)

    def schema(self):
        return schema_of(self.model)

    def state(self):
        return state_of(self.model)

    def load(self, state):
        load_into(self.model, state)

    def train(self, lease):
        print("training as", lease.seed, flush=True)
        if lease.seed == 1:
            raise ValueError("no such luck")
        if lease.seed == 2:
            child = subprocess.Popen(["sleep", "1000"])
            apart = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            print("apart", apart.pid, flush=True)
            print("sleeper", child.pid, flush=True)
            os._exit(7)
        if lease.seed == 3:
            while True:
                pass
        if lease.seed == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        if lease.seed == 5:
            while True:
                lease.pause()
        if lease.seed == 8:
            os.write(int(sys.argv[sys.argv.index("--answers") + 1]), b"\\xff" * 8)
            lease.samples.clear()
        if lease.seed == 10:
            return Trained(len(lease.samples), 0, 0.5)
        if lease.seed == 11:
            os.kill(os.getpid(), 40)
        if lease.seed == 9:
            return Trained(len(lease.samples) + 1, 3, 0.5)
        if lease.seed == 7:
            print("x" * 5000)
            print("10 %\\r50 %\\r100 %", flush=True)
            bytearray(2**40)
        if lease.seed in WAYS:
            WAYS[lease.seed](lease)
        if lease.seed == 6:
            with torch.no_grad():
                self.model.weight.fill_(float("nan"))
        return Trained(len(lease.samples), 3, 0.5)

    def evaluate(self, pause):
        assert torch.get_default_dtype() == torch.float32
        assert torch.is_grad_enabled()
        return Evaluated(0.25, 1.5, 8)

    def sample_losses(self, samples, pause):
        return [float(sample) for sample in samples]
'''
