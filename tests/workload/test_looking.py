import multiprocessing
import subprocess
import sys

import pytest
import torch
from torch import nn

from p2pd.workload.looking import first_difference, left_running, tied_names
from p2pd.workload.state import aliases_of


def test_names_of_one_tensor_are_a_group() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[2].weight = model[0].weight
    assert tied_names(aliases_of(model)) == (("0.weight", "1.weight", "2.weight"),)
    assert tied_names({}) == ()


def test_the_first_tensor_of_other_bits_is_named() -> None:
    wanted = {"a": torch.zeros(2), "b": torch.ones(2), "c": torch.ones(2)}
    assert first_difference(dict(wanted), wanted) is None
    found = {**wanted, "b": torch.zeros(2), "c": torch.zeros(2)}
    assert first_difference(found, wanted) == "b"


def sleep() -> None:
    multiprocessing.Event().wait()


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_processes_that_were_started_are_seen_and_those_of_loaders_are_not() -> None:
    loading = multiprocessing.get_context("spawn").Process(target=sleep, daemon=True)
    loading.start()
    with subprocess.Popen(["sleep", "1000"]) as child:
        found = left_running()
        child.kill()
    assert child.pid in found
    assert loading.pid not in found
    loading.kill()
    loading.join()
    assert child.pid not in left_running()
