"""What tables of settings consist of, read off their dataclasses.

A key has the name of a field and one of these types: str, int, float, bool, Path, a dataclass,
tuple[T, ...] of one of them, T | None, or several of these: str | int | tuple[str, ...].
"""

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from p2pd.errors import LocalError

SCALARS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What may stand behind a key, or as a table."""

    type: type[Any]
    """One of SCALARS, or a dataclass."""
    many: bool
    """A list of them."""
    others: "tuple[Kind, ...]" = ()
    """What may stand there as well."""

    @property
    def text(self) -> str:
        return " or ".join(kind.text_of_one for kind in self.all)

    @property
    def text_of_one(self) -> str:
        one = SCALARS.get(self.type, "a table")
        return f"a list, each item {one}" if self.many else one

    @property
    def all(self) -> "tuple[Kind, ...]":
        return (replace(self, others=()), *self.others)


@dataclass(frozen=True, slots=True)
class Key:
    kind: Kind
    required: bool
    default: object
    """None: not set, or required."""


def kind_of(hint: object) -> Kind:
    if get_origin(hint) in (types.UnionType, typing.Union):
        options = [option for option in get_args(hint) if option is not types.NoneType]
        first, *others = map(kind_of, options)
        return replace(first, others=tuple(others))
    if get_origin(hint) is tuple and get_args(hint)[1:] == (Ellipsis,):
        return Kind(kind_of(get_args(hint)[0]).type, many=True)
    if isinstance(hint, type) and (hint in SCALARS or dataclasses.is_dataclass(hint)):
        return Kind(hint, many=False)
    raise LocalError(f"settings of type {hint} cannot be loaded")


def keys_of(owner: type[Any]) -> dict[str, Key]:
    """The keys of a dataclass, in order."""
    hints = get_type_hints(owner)
    return {
        field.name: Key(
            kind=kind_of(hints[field.name]),
            required=field.default is dataclasses.MISSING,
            default=None if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(owner)
    }


def meanings_of(owner: type[Any]) -> dict[str, str]:
    """The string under each field of a dataclass, as one line."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    if not isinstance(definition, ast.ClassDef):
        raise LocalError(f"{owner} is no class")
    found = {}
    for field, following in zip(definition.body, definition.body[1:], strict=False):
        match field, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found
