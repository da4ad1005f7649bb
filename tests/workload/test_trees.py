import math
from pathlib import Path
from typing import Any

import pytest
import torch

from p2pd.errors import RemoteError, WorkloadError
from p2pd.tensors.files import TensorFile
from p2pd.workload.trees import read_tree, write_tree


def there_and_back(path: Path, tree: object) -> Any:
    write_tree(path, tree)
    return read_tree(TensorFile(path))


def test_numbers_text_and_containers_come_back_equal_and_of_the_same_types(tmp_path: Path) -> None:
    tree: dict[object, object] = {
        "none": None,
        "flags": [True, False],
        "whole": (0, -(2**64), 2**64 - 1),
        "floats": (0.1, -0.0, math.inf, 5e-324),
        "text": "Größe",
        "bytes": b"\0\1",
        3: {"deep": [[], (), {}]},
    }
    found = there_and_back(tmp_path / "tree", tree)
    assert repr(found) == repr(tree)
    assert math.isnan(there_and_back(tmp_path / "nan", [math.nan])[0])


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool]
)
def test_tensors_come_back_to_the_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    plain = torch.tensor([[1.5, -0.0, math.nan], [0.0, -math.inf, 3.0]]).to(dtype)
    tree = [plain, plain.t(), plain[:0], plain[0, 0]]
    found = there_and_back(tmp_path / "tree", tree)
    for before, after in zip(tree, found, strict=True):
        assert (after.dtype, after.shape) == (dtype, before.shape)
        as_bytes = [
            one.contiguous().reshape(-1).view(torch.uint8).tolist() for one in (before, after)
        ]
        assert as_bytes[0] == as_bytes[1]
    found[0].zero_()  # a copy, not the file


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"hooks": [print]}, "an object of type builtin_function_or_method at /hooks/0"),
        ({"a": {(1, 2): 3}}, "a key of type tuple at /a"),
        ([torch.zeros(1, dtype=torch.complex64)], "torch.complex64 at /0"),
        ([torch.eye(2).to_sparse()], "torch.sparse_coo, torch.float32 at /0"),
        (2**64, "an object of type int at /,"),
    ],
)
def test_what_no_file_holds_is_named_with_its_place(
    tmp_path: Path, tree: object, said: str
) -> None:
    with pytest.raises(WorkloadError) as refused:
        write_tree(tmp_path / "tree", tree)
    assert said in str(refused.value)


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path / "tree", [1])
    data = (tmp_path / "tree").read_bytes()
    (tmp_path / "other").write_bytes(data.replace(b"al\x01", b"az\x01"))
    with pytest.raises(RemoteError):
        read_tree(TensorFile(tmp_path / "other"))
