"""Finds a workload by its module's name, hashes its source, says in one line how it failed."""

import importlib
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from p2pd.errors import OtherWorkloadError, P2pError, WorkloadError, printable
from p2pd.workload.causes import advice_on

MESSAGE_CHARACTERS = 400
FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
BUILD = re.compile(r"(async +)?def +build\b|build *=|from .* import .*\bbuild\b")
OURS, STANDARD = Path(__file__).parents[1], Path(sysconfig.get_path("stdlib"))
INSTALLED = ("site-packages", "dist-packages")
Build = Callable[[dict[str, Any]], object]


def source_files(module: str) -> tuple[Path, ...]:
    """The files of a module: its own one, or all Python files of a package, by relative path.

    Raises:
        OtherWorkloadError: no such module, or it is not made of Python files.
    """
    if module == "__main__":
        raise OtherWorkloadError(
            "workload '__main__' is the program that runs here: name the workload's own module"
        )
    try:
        with _without_nul(module):  # a package is imported to find a module in it
            spec = find_spec(module)
    except (ImportError, ValueError) as error:
        raise OtherWorkloadError(
            f"workload {module!r} cannot be found: {error}: look at its name"
        ) from error
    if spec is None:
        raise OtherWorkloadError(
            f"workload {module!r} is not installed here: install it, or name the directory that it lies in"
            " (--workload-path, or experiment.workload_path of a node)"
        )
    if spec.submodule_search_locations is not None:
        root = Path(next(iter(spec.submodule_search_locations)))
        return tuple(sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()))
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise OtherWorkloadError(
            f"workload {module!r} has no Python source: {spec.origin}: name a module of .py files"
        )
    return (Path(spec.origin),)


def source_digest(module: str) -> bytes:
    """SHA-256 of a module's file, as sha256sum prints it; of a package, over all its Python files.

    Raises:
        WorkloadError: as source_files.
    """
    files = source_files(module)
    spec = find_spec(module)
    assert spec is not None  # source_files has found it
    if spec.submodule_search_locations is None:
        return sha256(files[0].read_bytes()).digest()
    root = Path(next(iter(spec.submodule_search_locations)))
    total = sha256()
    for path in files:
        content = path.read_bytes()
        total.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
    return total.digest()


def find_build(module: str) -> Build:
    """The module's build function. Importing runs the user's code, which may raise anything.

    Raises:
        WorkloadError: the module has no build function, or holds NUL bytes.
    """
    with _without_nul(module):
        content: Mapping[str, Any] = vars(importlib.import_module(module))
    build = content.get("build")
    if not callable(build):
        raise WorkloadError(
            f"workload {module!r} has no function build(config): add one that returns a workload"
        )
    return build  # type: ignore[no-any-return]  # checked as far as it can be


@contextmanager
def _without_nul(module: str) -> Iterator[None]:
    """Names the file that holds NUL bytes: Python says neither its name nor a line."""
    try:
        yield
    except SyntaxError as error:
        files = source_files(module.partition(".")[0]) if error.filename is None else ()
        for path in files:
            if b"\0" in path.read_bytes():
                raise WorkloadError(f"{path} contains NUL bytes: save it as UTF-8 text") from None
        raise


def failure_line(error: BaseException, files: tuple[Path, ...]) -> str:
    """What failed and where in the user's own files, in one line."""
    words = _words(error)
    text = _one_line(words)
    if isinstance(error, SystemExit):
        text = f"it called sys.exit({text}): have it return, or raise what is wrong"
    elif not isinstance(error, P2pError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if advice := advice_on(error, words):
        text = f"{text}: {advice}"
    place = _place(error, files)
    return printable(f"{text} ({place})" if place else text)


def show_traceback(error: BaseException, files: tuple[Path, ...]) -> None:
    """From the user's code on. Where standard error was closed, or is something else now, it is not shown."""
    own = frozenset(map(str, files))
    way = start = error.__traceback__
    while start is not None and not is_theirs(start.tb_frame.f_code.co_filename, own):
        start = start.tb_next
    with suppress(Exception):
        traceback.print_exception(type(error), error, start or way)


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - the user's own class may raise here too, whatever it likes
        return ""


def _one_line(text: str) -> str:
    """First and last line: torch puts what failed into the first one and why into the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = lines[0] if len(lines) == 1 else " ... ".join((lines[0], lines[-1])) if lines else ""
    return joined[:MESSAGE_CHARACTERS]


def _place(error: BaseException, files: tuple[Path, ...]) -> str:
    """The innermost line in the user's code; where that is no part of the way, its build function."""
    own = frozenset(map(str, files))
    # The user's code may raise one itself, with anything in it.
    named = error.filename if isinstance(error, SyntaxError) else None
    if isinstance(named, str) and is_theirs(named, own):
        return f"{named}:{error.lineno}"  # type: ignore[attr-defined]  # a SyntaxError, as above
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_theirs(frame.filename, own):
            return f"{frame.filename}:{frame.lineno}"
    if isinstance(error, P2pError):
        return ""  # our own words, which say what to do
    # A worker of a DataLoader sends its traceback as text.
    for path, line in reversed(FRAME.findall(_words(error))):
        if is_theirs(path, own):
            return f"{path}:{line}"
    return _build_of(files)


def is_theirs(path: str, own: frozenset[str] = frozenset()) -> bool:
    """Whether a file is the user's: neither ours, nor of an installed library or of Python itself."""
    if path in own:
        return True
    parents = Path(path).parents
    installed = any(parent.name in INSTALLED for parent in parents)
    return (
        path.endswith(".py") and not installed and OURS not in parents and STANDARD not in parents
    )


def _build_of(files: tuple[Path, ...]) -> str:
    """What we called is the last that can be said of the user's code."""
    for path in files:
        with suppress(OSError):  # it may have been removed since
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if BUILD.match(line):
                    return f"build: {path}:{number}"
    return ""
