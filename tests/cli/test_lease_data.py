from dataclasses import replace
from pathlib import Path

import pytest

from p2pd.cli.lease_data import data_lines, files_of_microshard, lease_data
from p2pd.core.revision import DataSpec, Revision
from tests.core.builders import setting_of
from tests.io.shard_sets import write_numbers


def revision(data: DataSpec) -> Revision:
    return replace(setting_of(lease_shards=2).revision, data=data)


@pytest.mark.parametrize(
    ("microshard", "file", "files"),
    [(4, 4, 1), (8, 4, 2), (2, 4, 1), (1, 4, 1), (3, 4, 2), (6, 4, 2), (5, 4, 2), (4, 3, 2)],
)
def test_a_microshard_lies_in_so_many_files(
    tmp_path: Path, microshard: int, file: int, files: int
) -> None:
    split = write_numbers(tmp_path / "set", train=60, each=file).splits[0]
    data = DataSpec("indexed", 60, microshard)
    starts = range(0, 60 - microshard + 1, microshard)
    found = max(len(split.files_of([range(n, n + microshard)])) for n in starts)
    assert found == files == files_of_microshard(data, split)


def test_publishing_says_what_a_lease_fetches_and_how_much_of_it_is_used(tmp_path: Path) -> None:
    shards = write_numbers(tmp_path / "set", train=40, each=4)
    write_numbers(tmp_path / "other", train=41, each=4)
    places = [tmp_path / "other", tmp_path / "set"]
    whole = revision(DataSpec("sharded", 40, 4, shards.id.hex()))
    found = lease_data(whole, places)
    assert found is not None
    assert (found.files, found.used) == (2, 1.0)
    assert found.size_bytes == pytest.approx(2 * sum(shards.splits[0].sizes) / 10, abs=1)
    assert found.validation_bytes == sum(shards.splits[1].sizes)
    assert len(data_lines(whole, places)) == 2
    part = revision(DataSpec("sharded", 40, 1, shards.id.hex()))
    assert data_lines(part, places)[-1].endswith(
        "it trains on 25% of that: a schedule.shard_samples of 4 makes it all"
    )


def test_nothing_is_said_of_other_data_or_of_a_set_that_is_not_at_hand(tmp_path: Path) -> None:
    write_numbers(tmp_path / "set")
    assert data_lines(revision(DataSpec("indexed", 40, 4)), [tmp_path / "set"]) == []
    assert data_lines(revision(DataSpec("sharded", 40, 4, "ab" * 32)), [tmp_path / "set"]) == []
