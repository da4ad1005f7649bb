import json
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from p2pd.errors import StoreError, WorkloadError
from p2pd.workload.source import (
    failure_line,
    find_build,
    source_digest,
    source_files,
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_the_digest_of_a_module_is_that_of_its_file(place: Path) -> None:
    (place / "single_workload.py").write_bytes(b"def build(config): ...\n")
    assert source_digest("single_workload") == sha256(b"def build(config): ...\n").digest()


def test_the_digest_of_a_package_covers_names_and_content_of_all_its_python_files(
    place: Path,
) -> None:
    root = place / "package_workload"
    (root / "inner").mkdir(parents=True)
    (root / "__init__.py").write_text("def build(config): ...\n")
    (root / "inner" / "model.py").write_text("width = 1\n")
    first = source_digest("package_workload")
    (root / "notes.txt").write_text("not code")
    assert source_digest("package_workload") == first
    (root / "inner" / "model.py").write_text("width = 2\n")
    changed = source_digest("package_workload")
    (root / "inner" / "model.py").rename(root / "inner" / "models.py")
    assert len({first, changed, source_digest("package_workload")}) == 3


def test_a_reference_workload_is_its_own_file_alone() -> None:
    files = source_files("p2pd.workloads.digits")
    assert [path.name for path in files] == ["digits.py"]


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(WorkloadError, match="'no_such_workload' is not installed here"):
        source_files("no_such_workload")
    with pytest.raises(WorkloadError, match=r"'no_such_package\.workload' cannot be found"):
        source_files("no_such_package.workload")


def test_a_module_without_build_is_named(place: Path) -> None:
    (place / "empty_workload.py").write_text("built = 1\n")
    with pytest.raises(WorkloadError, match=r"'empty_workload' has no function build\(config\)"):
        find_build("empty_workload")


def test_a_failure_names_the_line_of_the_users_file_not_of_what_it_called(place: Path) -> None:
    path = place / "deep_workload.py"
    path.write_text("import json\n\ndef build(config):\n    return json.loads('{')\n")
    with pytest.raises(ValueError, match="Expecting") as caught:
        find_build("deep_workload")({})
    line = failure_line(caught.value, source_files("deep_workload"))
    assert line.startswith("JSONDecodeError: Expecting property name")
    assert line.endswith(f"({path}:4)")


def test_a_module_with_nul_bytes_is_refused_by_the_name_of_its_file(place: Path) -> None:
    path = place / "wide_workload.py"
    path.write_bytes("def build(config): ...\n".encode("utf-16-le"))
    with pytest.raises(WorkloadError, match=r"wide_workload\.py contains NUL bytes: save it as"):
        find_build("wide_workload")
    (place / "package_workload").mkdir()
    (place / "package_workload" / "__init__.py").write_bytes(path.read_bytes())
    (place / "package_workload" / "model.py").write_text("def build(config): ...\n")
    with pytest.raises(WorkloadError, match=r"__init__\.py contains NUL bytes"):
        source_files("package_workload.model")
    (place / "outer_workload.py").write_text("\nimport wide_workload\n")
    with pytest.raises(SyntaxError) as caught:
        find_build("outer_workload")
    assert failure_line(caught.value, ()).endswith(f"({place / 'outer_workload.py'}:2)")


def test_the_running_program_is_no_workload() -> None:
    with pytest.raises(WorkloadError, match=r"^workload '__main__' is the program that runs here"):
        source_files("__main__")


def test_a_failure_can_be_encoded_whatever_its_words_are() -> None:
    assert failure_line(ValueError("\udcff"), ()) == r"ValueError: \udcff"
    assert failure_line(SyntaxError("x", (5, 1, 1, "y")), ()).startswith("SyntaxError: x")  # type: ignore[arg-type]

    class WordlessError(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    assert failure_line(WordlessError(), (Path("gone.py"),)) == "WordlessError"


def test_what_we_say_ourselves_blames_no_line_of_the_users(place: Path) -> None:
    path = place / "users.py"
    path.write_text("def build(config): ...\n")
    said = "/data/tmp-1: the disk is full: free some space"
    assert failure_line(StoreError(said), (path,)) == said


def test_a_syntax_error_names_its_own_line(place: Path) -> None:
    path = place / "broken_workload.py"
    path.write_text("value = 1\ndef build(config:\n")
    with pytest.raises(SyntaxError) as caught:
        find_build("broken_workload")
    assert failure_line(caught.value, (path,)).endswith(f"({path}:2)")


def test_a_long_failure_becomes_one_bounded_line() -> None:
    error = RuntimeError("Error(s) in loading:\n\tsize mismatch for weight\n" + "x" * 9999)
    line = failure_line(error, ())
    assert line.startswith("RuntimeError: Error(s) in loading: ... xxx")
    assert len(line) < 500
    assert "\n" not in line


def failing(module: str) -> str:
    """What is said of a workload whose build fails."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - the user's code
        find_build(module)({})
    error = caught.value
    behind = error.__traceback__.tb_next if error.__traceback__ else None
    return failure_line(error.with_traceback(behind), source_files(module))


@pytest.mark.parametrize(
    ("build", "place_said"),
    [
        ("def build():\n    pass\n", "(build: {path}:1)"),
        ("import helper_of_it\n\ndef build(config):\n    helper_of_it.f()\n", "({helper}:2)"),
        ("import broken_helper\n", "({broken}:1)"),
        ("import json\nbuild = json.loads\n", "(build: {path}:2)"),
        ("def build(config):\n    eval('1 +')\n", "({path}:2)"),
        ("raise SystemError\n", "({path}:1)"),
        (
            "class E(Exception):\n    __str__ = None\ndef build(config):\n    raise E\n",
            "({path}:4)",
        ),
        (
            "def build(config):\n    raise OSError(f'Caught it.\\n  File \"{__file__}\", line 77')\n",
            "({path}:2)",
        ),
    ],
)
def test_a_failure_names_no_line_of_ours_and_none_of_a_library(
    place: Path, build: str, place_said: str
) -> None:
    path, helper, broken = place / "users.py", place / "helper_of_it.py", place / "broken_helper.py"
    path.write_text(build)
    helper.write_text("def f():\n    return 1 / 0\n")
    broken.write_text("def (:\n")
    said = failing("users")
    assert said.endswith(place_said.format(path=path, helper=helper, broken=broken))


def test_what_a_loader_of_many_processes_tells_in_words_is_placed_too(place: Path) -> None:
    path = place / "users.py"
    text = (
        "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback:\n"
        f'  File "{path}", line 12, in __getitem__\n  File "{json.__file__}", line 3, in loads\n'
        "ValueError: no such sample"
    )
    said = failure_line(ValueError(text), (path,))
    assert said.endswith(f"ValueError: no such sample ({path}:12)")
