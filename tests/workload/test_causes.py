import errno
from pathlib import Path

import pytest

from p2pd.workload.causes import advice_on, memory_advice

CPU = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
CUDA = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.1 GiB"
SHM = "unable to allocate shared memory(shm) for file </torch_1_2_0>: No space left on device (28)"
BUS = "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that"
KILLED = "DataLoader worker (pid 7) is killed by signal: Killed. "
FULL = OSError(errno.ENOSPC, "No space left on device", "out/here.bin")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory, "),
        (RuntimeError(CPU), "out of memory, "),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory, "),
        (RuntimeError(CUDA), "the device's memory is full: use smaller batches"),
        (RuntimeError(SHM), "/dev/shm has "),
        (RuntimeError(BUS), "/dev/shm has "),
        (RuntimeError(KILLED), "a process of the data loader was killed: out of memory"),
        (RuntimeError("DataLoader timed out after 5 seconds"), "the data loader hangs: look at"),
        (FULL, f"the disk of {Path('out').absolute()} is full: free some space"),
        (ValueError("no such luck"), ""),
        (OSError(errno.ENOENT, "No such file or directory", "x"), ""),
    ],
)
def test_a_failure_that_is_named_badly_gets_its_cause_and_what_to_do(
    error: BaseException, said: str
) -> None:
    advice = advice_on(error, str(error))
    assert advice.startswith(said)
    assert bool(advice) == bool(said)


def test_a_limit_is_named_where_there_is_one_and_otherwise_what_the_machine_has() -> None:
    limited = memory_advice(2**32)
    assert limited.startswith("out of memory, it may hold 4.3 GB (worker.memory_bytes): use small")
    assert limited.endswith("or raise worker.memory_bytes")
    assert "worker.memory_bytes" not in memory_advice(None)
