from pathlib import Path

import pytest
import torch

from p2pd.errors import WorkloadError
from p2pd.workload.local import train_alone
from p2pd.workload.session import build_workload
from p2pd.workloads.bytegpt import (
    ByteGpt,
    ByteGptConfig,
    bits_per_byte,
    build,
    library_files,
    read_corpus,
    validation,
    windows,
)

SMALL = {"width": 32, "heads": 2, "layers": 1, "context": 32, "batch": 8}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Some modules of a small standard library."""
    for name in ("abc.py", "ast.py", "json/decoder.py", "bisect.py", "cmd.py", "code.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# the module {name}\n" * 40)
    for name in ("requests.py", "json/tests/test_all.py", "idlelib/idle.py", "abc.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("not the library's own")
    return tmp_path


def test_the_text_is_the_librarys_own_modules_and_no_others(library: Path) -> None:
    names = [path.relative_to(library).as_posix() for path in library_files(library)]
    assert names == ["abc.py", "ast.py", "bisect.py", "cmd.py", "code.py", "json/decoder.py"]


def test_another_version_of_any_file_has_another_descriptor(library: Path) -> None:
    before = read_corpus(library)
    assert read_corpus(library).descriptor == before.descriptor
    assert "6 files" in before.descriptor
    (library / "abc.py").write_text("# patched")
    assert read_corpus(library).descriptor != before.descriptor


def test_a_python_without_sources_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no sources of the standard library"):
        read_corpus(tmp_path)


def test_a_window_predicts_the_byte_after_each_and_validation_is_apart(library: Path) -> None:
    corpus = read_corpus(library)
    settings = ByteGptConfig(context=16)
    inputs, targets = windows(corpus, settings)[3]
    assert torch.equal(inputs[1:], targets[:-1])
    assert len(corpus.train) + len(corpus.valid) == sum(
        path.stat().st_size for path in library_files(library)
    )
    assert len(validation(corpus, 16)) > 1
    for context in (10**6, len(corpus.valid)):
        with pytest.raises(WorkloadError, match="context must be below"):
            validation(corpus, context)


def test_no_byte_sees_those_after_it() -> None:
    model = ByteGpt(ByteGptConfig(width=16, heads=2, layers=2, context=8)).eval()
    text = torch.arange(8).unsqueeze(0)
    other = text.clone()
    other[0, 5] = 99
    with torch.no_grad():
        first, second = model(text), model(other)
    assert torch.equal(first[0, :5], second[0, :5])
    assert not torch.equal(first[0, 5:], second[0, 5:])


def test_uniform_scores_cost_eight_bits_a_byte() -> None:
    total, count = bits_per_byte(torch.zeros(2, 3, 256), torch.zeros(2, 3, dtype=torch.long))
    assert (round(total / count, 4), count) == (8.0, 6)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(WorkloadError, match="width must be a multiple of heads, got 10 and 4"):
        build({"width": 10})


def test_it_is_built_alike_from_the_machines_own_library() -> None:
    first, second = (build_workload("p2pd.workloads.bytegpt", dict(SMALL)) for _ in range(2))
    assert first.pipeline.descriptor() == second.pipeline.descriptor()
    assert first.pipeline.kind() == "generated"
    state, other = first.state(), second.state()
    assert all(torch.equal(state[name], other[name]) for name in state)


def test_training_alone_learns_the_text() -> None:
    result = train_alone(
        "p2pd.workloads.bytegpt", dict(SMALL), samples=1200, every=1200, report=lambda _: None
    )
    first, last = result.points
    assert 7.5 < first.metric < 8.5
    assert last.metric < 5.0
