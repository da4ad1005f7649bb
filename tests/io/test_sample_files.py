import os
from pathlib import Path

import pytest

from p2pd.core.samples import load_sample
from p2pd.errors import P2pError, StoreError, UsageError
from p2pd.io import sample_files
from p2pd.io.sample_files import read_files


def samples(path: Path, record_bytes: int = 0) -> list[object]:
    return [load_sample(record) for record in read_files(path, record_bytes).records]


def test_each_file_of_a_directory_is_a_sample_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).write_text(name)
    assert samples(tmp_path) == [b"a", b"b"]


def test_directories_are_classes_numbered_by_name(tmp_path: Path) -> None:
    for name in ("dog/2", "cat/1", "dog/deep/3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert samples(tmp_path) == [(b"cat/1", 0), (b"dog/2", 1), (b"dog/deep/3", 1)]
    assert read_files(tmp_path, 0).classes == ("cat", "dog")


def test_each_line_of_json_is_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"text":"a","n":1.5}\n\n[1,null]\n"last"')
    assert samples(path) == [{"text": "a", "n": 1.5}, [1, None], "last"]


def test_a_file_of_bytes_is_cut_into_records(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"aabbcc")
    assert samples(path, 2) == [b"aa", b"bb", b"cc"]
    with pytest.raises(UsageError, match=r"last record has 2 bytes, not 4"):
        samples(path, 4)


@pytest.mark.parametrize(
    "line", ["{", "NaN", "[" * 100_000, f'{{"n":{2**70}}}', '{"a":' * 40 + "1" + "}" * 40]
)
def test_a_line_that_is_no_sample_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(f"1\n{line}\n")
    with pytest.raises(UsageError, match=r"data.jsonl:2: no"):
        samples(path)


def test_a_long_line_and_a_large_file_take_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_files, "SAMPLE_BYTES_MOST", 10)
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "file").write_bytes(b"x" * 11)
    with pytest.raises(UsageError, match="the most of a sample"):
        samples(tmp_path / "large")
    (tmp_path / "long.jsonl").write_text('"123456789"\n')
    with pytest.raises(UsageError, match="a line is larger than 10 bytes"):
        samples(tmp_path / "long.jsonl")


def test_what_is_no_source_says_what_is_one(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(UsageError, match="--record-bytes"):
        samples(tmp_path / "text.txt")
    (tmp_path / "mixed" / "class").mkdir(parents=True)
    (tmp_path / "mixed" / "stray").write_text("x")
    with pytest.raises(UsageError, match="stray: a file beside directories"):
        samples(tmp_path / "mixed")
    with pytest.raises(StoreError, match="no such file"):
        samples(tmp_path / "missing.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(P2pError, match="pipe"):
        samples(tmp_path / "pipe.jsonl")
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "class").mkdir()
    (tmp_path / "loop" / "class" / "self").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError, match="directory"):
        samples(tmp_path / "loop")


def test_too_many_classes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_files, "CLASSES_MOST", 1)
    for name in "ab":
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="2 classes"):
        samples(tmp_path)
