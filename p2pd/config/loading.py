"""TOML to frozen dataclasses, one per table. All that is wrong is said, with file, line and key.

What a dataclass itself refuses (ValueError) is said in its words, best with the key as first word.
"""

import difflib
import math
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from p2pd.config.lines import Place, find_lines
from p2pd.config.schema import SCALARS, Key, Kind, keys_of, kind_of
from p2pd.errors import LocalError, ProblemsError, UsageError, advice

FIRST_WORD = re.compile(r"\w+")
LINE_OF_ERROR = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)")

MOST: dict[type, int] = {int: 2**62 - 1, float: 10**15}
"""Of any number, as bytes or seconds more than anybody has: larger ones overflow where they are used."""
SAID_IN_FULL = 10**40
FILE_BYTES = 2**20
"""No configuration is larger."""


@dataclass(frozen=True, slots=True)
class Override:
    """A value from the command line. It wins over the file."""

    flag: str
    """As typed: --data-dir. Errors name it."""
    table: str
    key: str
    value: object
    """As TOML would give it; a path is relative to the working directory."""


def load(
    path: Path | None,
    tables: Mapping[str, object],
    overrides: Sequence[Override] = (),
    defaults: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> dict[str, Any]:
    """An instance for each table: of its dataclass, or a tuple of them for tuple[DATACLASS, ...].

    Args:
        path: The file; None where everything comes from overrides and defaults.
        tables: Dataclass of each table, or tuple[DATACLASS, ...] for an array of tables.
        overrides: Applied in order.
        defaults: By table and key, in place of those of the dataclasses; the file wins over them.

    Raises:
        ProblemsError: one line for each thing that is wrong.
    """
    text = "" if path is None else read_text(path)
    loader = _Loader(path, tables, text, overrides)
    loader.fill(defaults)
    instances = loader.build_tables()
    if loader.problems:
        raise ProblemsError(line for _, line in sorted(loader.problems))
    return instances


def read_text(path: Path) -> str:
    """Raises UsageError: it is no file of text, or cannot be read."""
    try:
        data = _read(path)
        if len(data) > FILE_BYTES:
            raise UsageError(f"{path}: larger than {FILE_BYTES} bytes: is it another file?")
        if b"\0" in data:
            raise UsageError(f"{path}: not a file of text: name a configuration file, TOML")
        return data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: there is no such configuration file: look at the path"
        ) from error
    except IsADirectoryError as error:
        raise UsageError(
            f"{path}: is a directory, not a configuration file: name a file in it"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {advice(error)}") from error


def _read(path: Path) -> bytes:
    """Of a file, at most twice what a configuration may be."""
    # A pipe would hold up whoever opens it, a device may never end, and of the files of the kernel both is so.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise UsageError(
                f"{path}: is a pipe or a device, not a configuration file: name a file"
            )
        data = b""
        while len(data) <= FILE_BYTES and (more := os.read(descriptor, FILE_BYTES + 1)):
            data += more
        return data
    finally:
        os.close(descriptor)


class _Loader:
    def __init__(
        self,
        path: Path | None,
        tables: Mapping[str, object],
        text: str,
        overrides: Sequence[Override],
    ) -> None:
        self.problems: list[tuple[int, str]] = []
        """Line, and what is wrong."""
        self._path = path
        self._kinds = {name: kind_of(table) for name, table in tables.items()}
        self._flags: dict[Place, str] = {}
        try:
            self._data = tomllib.loads(text)
            self._lines = find_lines(text)
        except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
            raise _syntax_error(path, text, error) from error
        except RecursionError as error:
            raise UsageError(
                f"{path}: arrays or tables are nested too deeply: flatten them"
            ) from error
        for override in overrides:
            self._override(override)

    def fill(self, defaults: Mapping[str, Mapping[str, object]]) -> None:
        for name, values in defaults.items():
            table = self._data.setdefault(name, {})
            if isinstance(table, dict):  # else the file is wrong there, and that is said
                table.update({key: value for key, value in values.items() if key not in table})

    def build_tables(self) -> dict[str, object]:
        for name in self._data:
            if name not in self._kinds:
                self._problem((name,), self._unknown_table(name))
        absent: dict[bool, object] = {True: [], False: {}}
        return {
            name: self._convert(kind, self._data.get(name, absent[kind.many]), (name,))
            for name, kind in self._kinds.items()
        }

    def _override(self, override: Override) -> None:
        if override.key not in keys_of(self._kinds[override.table].type):
            raise LocalError(f"{override.flag} sets no key: {override.table}.{override.key}")
        table = self._data.setdefault(override.table, {})
        if isinstance(table, dict):  # else the file is wrong there, and that is said
            table[override.key] = override.value
            self._flags[(override.table, override.key)] = override.flag

    def _convert(self, kind: Kind, value: object, place: Place) -> object:
        """The value as kind wants it, or None and a problem."""
        many = isinstance(value, list | tuple)
        for one in kind.all if kind.others else ():
            if one.many == many and (many or type(value) is one.type):
                return self._convert(one, value, place)
        if kind.others:
            self._problem(place, f"must be {kind.text}, got {_said(value)}")
            return None
        if not kind.many:
            return self._convert_one(kind, value, place)
        if isinstance(value, list | tuple):
            one = Kind(kind.type, many=False)
            return tuple(
                self._convert_one(one, item, (*place, index)) for index, item in enumerate(value)
            )
        self._problem(place, f"must be {kind.text}, got {_said(value)}")
        return None

    def _convert_one(self, kind: Kind, value: object, place: Place) -> object:
        match value:
            case dict() if kind.type not in SCALARS:
                return self._build(kind.type, value, place)
            case str() | Path() if kind.type is Path and str(value):
                return _resolved(self._base(place) / value)
            case int() | float() if kind.type in MOST and MOST[kind.type] < abs(value) < math.inf:
                said = f"{value}" if abs(value) < SAID_IN_FULL else "this number"
                self._problem(place, f"{said} is too large: {MOST[kind.type]} is the most")
                return None
            case bool() | int() | str() if type(value) is kind.type:
                return value
            case int() | float() if kind.type is float and math.isfinite(value):
                if not isinstance(value, bool):
                    return float(value)
        self._problem(place, f"must be {kind.text}, got {_said(value)}")
        return None

    def _build(self, owner: type[Any], table: dict[str, object], place: Place) -> object:
        before = len(self.problems)
        keys = keys_of(owner)
        values = {}
        for word, value in table.items():
            if word in keys:
                values[word] = self._convert(keys[word].kind, value, (*place, word))
            else:
                self._problem((*place, word), self._unknown_key(word, str(place[0]), keys))
        for word, key in keys.items():
            if key.required and word not in table:
                self._problem((*place, word), "this key is required and missing")
        if len(self.problems) > before:
            return None
        try:
            built: object = owner(**values)
        except (ValueError, UsageError) as error:
            self._refused(str(error), place, keys)
            return None
        return built

    def _refused(self, why: str, place: Place, keys: Mapping[str, Key]) -> None:
        """A dataclass said why; where it names the key first, that key's line is given."""
        why = why.removeprefix(f"{_dotted(place)}.")
        word = FIRST_WORD.match(why)
        if word and word[0] in keys:
            self._problem((*place, word[0]), why[word.end() :].removeprefix(":").strip())
        else:
            self._problem(place, why)

    def _unknown_table(self, name: str) -> str:
        if isinstance(self._data[name], dict | list):
            return "unknown table" + (
                _nearest(name, list(self._kinds)) or f"; known are {', '.join(self._kinds)}"
            )
        everywhere = [key for kind in self._kinds.values() for key in keys_of(kind.type)]
        return self._belongs(name, "") or (
            "unknown key, and outside of any table" + _nearest(name, everywhere)
        )

    def _unknown_key(self, word: str, table: str, keys: Mapping[str, Key]) -> str:
        elsewhere = [
            f"{name}.{key}"
            for name, kind in self._kinds.items()
            if name != table
            for key in keys_of(kind.type)
        ]
        return self._belongs(word, table) or "unknown key" + (
            _nearest(word, list(keys))
            or _nearest(f"{table}.{word}", elsewhere)
            or f"; known are {', '.join(keys)}"
        )

    def _belongs(self, word: str, here: str) -> str:
        """Where a key that stands in the wrong table is right; empty if nowhere."""
        owners = [
            f"[{name}]"
            for name, kind in self._kinds.items()
            if name != here and word in keys_of(kind.type)
        ]
        return f"this key belongs in {' or '.join(owners)}" if owners else ""

    def _base(self, place: Place) -> Path:
        """What a path in the file or on the command line is relative to."""
        from_flag = place[:2] in self._flags
        return Path.cwd() if from_flag or self._path is None else self._path.absolute().parent

    def _problem(self, place: Place, what: str) -> None:
        line, where = 0, "command line" if self._path is None else str(self._path)
        flag = self._flags.get(place[:2])
        if flag is not None:
            where = flag
        else:
            # What is missing has no line of its own: that of its table is the nearest.
            known = [place[:end] for end in range(len(place), 0, -1) if place[:end] in self._lines]
            if known:
                line = self._lines[known[0]]
                where = f"{where}:{line}"
        self.problems.append((line, f"{where}: {_dotted(place)}: {what}"))


def _syntax_error(path: Path | None, text: str, error: ValueError) -> UsageError:
    if not isinstance(error, tomllib.TOMLDecodeError):
        return UsageError(f"{path}: a number has thousands of digits: shorten it")
    said = LINE_OF_ERROR.search(str(error))
    line = int(said[1]) if said and said[1] else text.count("\n") + 1
    why = LINE_OF_ERROR.sub("", str(error))
    return UsageError(f"{path}:{line}: not TOML: {why}: correct the line, or name another file")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # symbolic links without an end: whoever opens it says so
        return path.absolute()


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return f"the text {value!r}" if isinstance(value, str) else str(value)


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _dotted(place: Place) -> str:
    """nodes[2].role"""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
