import numpy as np
import pytest
import torch

from p2pd.core.samples import Tensor, dump_sample
from p2pd.workload.samples import dump, load

TENSORS = [
    torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
    torch.tensor(3),
    torch.tensor([True, False]),
    torch.tensor([1.5, -0.0], dtype=torch.bfloat16),
    torch.empty(0, 4, dtype=torch.int16),
    torch.tensor([1.0], requires_grad=True),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=str)
def test_a_tensor_comes_back_to_the_bit(tensor: torch.Tensor) -> None:
    again = load(dump(tensor))
    assert (again.dtype, again.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(again, tensor)


def test_arrays_of_numpy_and_its_numbers_come_back_as_tensors() -> None:
    sample = {"pixels": np.arange(4, dtype=np.uint8)[::-1], "label": np.int64(7), "name": "x"}
    again = load(dump(sample))
    assert torch.equal(again["pixels"], torch.tensor([3, 2, 1, 0], dtype=torch.uint8))
    assert torch.equal(again["label"], torch.tensor(7))
    assert again["name"] == "x"


@pytest.mark.parametrize(
    "sample",
    [
        np.array(["text"]),
        torch.tensor([1j]),
        torch.sparse_coo_tensor(
            torch.tensor([[0]]), torch.tensor([1.0]), (2,), check_invariants=True
        ),
        object(),
    ],
    ids=["text", "complex", "sparse", "object"],
)
def test_what_has_no_form_is_refused(sample: object) -> None:
    with pytest.raises(ValueError, match="it holds"):
        dump((sample,))


def test_i08_bytes_that_are_no_truth_values_become_some() -> None:
    stored = load(dump_sample(Tensor("BOOL", (3,), b"\0\1\7")))
    assert stored.tolist() == [False, True, True]
