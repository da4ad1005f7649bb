"""The tables that configuration files of nodes and fleets have, and what they amount to."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from p2pd.config.fleet import FLEET_TABLES, load_fleet
from p2pd.config.loading import load, read_text
from p2pd.config.schema import keys_of, meanings_of
from p2pd.daemon.settings import TABLES
from p2pd.errors import UsageError


def is_fleet(path: Path) -> bool:
    """What cannot be parsed is no fleet: whoever loads it says what is wrong."""
    try:
        tables = tomllib.loads(read_text(path))
    except (UsageError, ValueError, RecursionError):
        return False
    return any(table in tables for table in FLEET_TABLES)


def effective(path: Path) -> Mapping[str, Any]:
    """The settings in effect, by table.

    Raises:
        UsageError: one line for each thing that is wrong.
    """
    if is_fleet(path):
        fleet = load_fleet(path)
        return {"fleet": fleet.settings, "nodes": fleet.nodes}
    return load(path, TABLES)


def settings_json(value: object) -> object:
    """Settings as JSON has them: paths are text."""
    if is_dataclass(value):
        return {field.name: settings_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: settings_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [settings_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def keys_json(tables: Mapping[str, type]) -> dict[str, object]:
    """Every key of every table: what may stand there, what stands there by default, what it means."""
    return {
        name: {
            word: {
                "kind": key.kind.text,
                "required": key.required,
                "default": settings_json(key.default),
                "meaning": meanings_of(table)[word],
            }
            for word, key in keys_of(table).items()
        }
        for name, table in tables.items()
    }
