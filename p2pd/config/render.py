"""Settings as TOML: all keys explained, and those in effect."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from p2pd.config.schema import Key, keys_of, kind_of, meanings_of

COLUMNS = 96


def describe(tables: Mapping[str, object]) -> str:
    """Every key with its meaning, type and default, each as a comment: a file to start from."""
    return "\n".join(line for name, table in tables.items() for line in _explain(name, table))


def show(instances: Mapping[str, object]) -> str:
    """The settings in effect, as a file that loads to the same."""
    return "\n".join(line for name, value in instances.items() for line in _table(name, value))


def _explain(name: str, table: object) -> Iterator[str]:
    kind = kind_of(table)
    # An array of tables must not gain an element from its description.
    yield f"#[[{name}]]" if kind.many else f"[{name}]"
    meanings = meanings_of(kind.type)
    for word, key in keys_of(kind.type).items():
        yield from (f"# {line}" for line in textwrap.wrap(meanings.get(word, ""), COLUMNS))
        yield f"# ({key.kind.text}{', required' if key.required else ''})"
        yield f"#{word} = {_example(key)}"
        yield ""


def _example(key: Key) -> str:
    """The default; where there is none, the shape of a value."""
    if key.default is not None:
        return _toml(key.default)
    if key.kind.many:
        return "[]"
    return '""' if key.kind.type in (str, Path) else "0"


def _table(name: str, value: object) -> Iterator[str]:
    many = isinstance(value, tuple)
    for item in value if isinstance(value, tuple) else (value,):
        yield f"[[{name}]]" if many else f"[{name}]"
        for key, content in _contents(item):
            yield f"# {key} is not set" if content is None else f"{key} = {_toml(content)}"
        yield ""


def _contents(item: object) -> Iterator[tuple[str, object]]:
    for key in keys_of(type(item)):
        yield key, getattr(item, key)


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str() | Path():
            # A JSON string is a TOML string, but for one character.
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            pairs = [f"{key} = {_toml(v)}" for key, v in _contents(value) if v is not None]
            return f"{{{', '.join(pairs)}}}"
