from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

from p2pd.errors import WorkloadError
from p2pd.workload.samples import load
from p2pd.workload.sharding import records_of_named

HERE = __name__


class Squares(Dataset[object]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> object:
        return torch.tensor(place * place), place


class Broken(Squares):
    def __getitem__(self, place: int) -> object:
        if place == 2:
            raise OSError("disk gone")
        return object() if place else 1


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([1])


ready = Squares()
listed = [1, 2.5, "three"]
none = None


def samples(name: str) -> list[object]:
    return [load(record) for record in records_of_named(f"{HERE}:{name}")]


def test_what_a_module_names_is_called_or_taken_as_it_is() -> None:
    assert samples("Squares") == [(torch.tensor(n * n), n) for n in range(3)]
    assert samples("ready") == samples("Squares")
    assert samples("listed") == listed


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "has no 'missing'"),
        ("Stream", "gives Stream: a map-style data set is needed"),
        ("none", "gives NoneType"),
        ("Broken", r"sample 1 of .*:Broken cannot be stored: it holds object"),
    ],
)
def test_what_is_no_data_set_is_said_in_one_line(name: str, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        samples(name)


def test_what_the_users_code_raises_is_said_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2pd.workload.sharding.dump", lambda _: b"x")
    with pytest.raises(WorkloadError, match=r"OSError: disk gone \(.*test_sharding.py:\d+\)"):
        list(records_of_named(f"{HERE}:Broken"))
    with pytest.raises(WorkloadError, match="is not installed here"):
        list(records_of_named("no_such_module:data"))
