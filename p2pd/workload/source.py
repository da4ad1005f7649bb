"""Finds a workload by its module's name, hashes its source, says in one line how it failed."""

import importlib
import traceback
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from p2pd.errors import WorkloadError

MESSAGE_CHARACTERS = 400
Build = Callable[[dict[str, Any]], object]


def source_files(module: str) -> tuple[Path, ...]:
    """The files of a module: its own one, or all Python files of a package, by relative path.

    Raises:
        WorkloadError: no such module, or it is not made of Python files.
    """
    try:
        spec = find_spec(module)
    except (ImportError, ValueError) as error:
        raise WorkloadError(f"workload {module!r} cannot be found: {error}") from error
    if spec is None:
        raise WorkloadError(
            f"workload {module!r} is not installed here: install it, or name the directory that it lies in"
            " (--workload-path, or experiment.workload_path of a node)"
        )
    if spec.submodule_search_locations is not None:
        root = Path(next(iter(spec.submodule_search_locations)))
        return tuple(sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()))
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise WorkloadError(f"workload {module!r} has no Python source: {spec.origin}")
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
        WorkloadError: the module has no build function.
    """
    content: Mapping[str, Any] = vars(importlib.import_module(module))
    build = content.get("build")
    if not callable(build):
        raise WorkloadError(f"workload {module!r} has no function build(config)")
    return build  # type: ignore[no-any-return]  # checked as far as it can be


def failure_line(error: BaseException, files: tuple[Path, ...]) -> str:
    """What failed and where in the user's own files, in one line."""
    text = _one_line(_words(error))
    if not isinstance(error, WorkloadError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = _place(error, files)
    return f"{text} ({place})" if place else text


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the user's own class may raise here too
        return ""


def _one_line(text: str) -> str:
    """First and last line: torch puts what failed into the first one and why into the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = lines[0] if len(lines) == 1 else " ... ".join((lines[0], lines[-1])) if lines else ""
    return joined[:MESSAGE_CHARACTERS]


def _place(error: BaseException, files: tuple[Path, ...]) -> str:
    """The innermost line in the user's own files; else the innermost of all."""
    own = {str(path) for path in files}
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename in own:
            return f"{frame.filename}:{frame.lineno}"
    if frames and not isinstance(error, WorkloadError):
        return f"{frames[-1].filename}:{frames[-1].lineno}"
    return ""
