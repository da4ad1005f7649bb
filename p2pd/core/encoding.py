"""Frozen dataclasses to and from canonical CBOR: arrays, integers, bytes, text, booleans and null only.

A dataclass is the array of its fields, in order. Each object has exactly one encoding: what is
decoded is encoded again and compared. Sizes and depth are checked before memory is taken.
Source: RFC 8949 4.2.1, less maps, tags and floats.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import cbor2

from p2pd.errors import LocalError, RemoteError

MAX_BYTES = 8 * 2**20
"""Largest object that decode takes unless its caller sets another limit."""
MAX_DEPTH = 24
MAX_ARRAYS = 2**18
"""An empty array is one byte that costs sixty-four in memory; all else grows far less."""
INT_LEAST, INT_MOST = -(2**64), 2**64 - 1
SMALL = 2**60
"""Far from where integers end."""

T = TypeVar("T")
Plain = None | bool | int | bytes | str | list["Plain"]
Build = Callable[[Plain], object]
Atom = type[int] | type[bytes] | type[str] | type[bool] | type[None]
WHOLE = frozenset({bytes, str, bool, types.NoneType})
"""Types whose values stand for themselves."""
ATOMS = WHOLE | {int}


def encode(value: object) -> bytes:
    """Canonical bytes of a dataclass, or of plain tuples, integers, bytes, text, booleans and None."""
    return cbor2.dumps(_plain(value))


def decode(kind: type[T], data: bytes, *, limit_bytes: int = MAX_BYTES) -> T:
    """The object of type kind whose canonical encoding is data.

    Raises:
        RemoteError: data is too large, malformed, not canonical, or not such an object.
    """
    return from_plain(kind, decode_plain(data, limit_bytes=limit_bytes))


def from_plain(kind: type[T], plain: Plain) -> T:
    """The object of type kind that plain stands for, as decode_plain returned it.

    Raises:
        RemoteError: it is not such an object.
    """
    try:
        return cast("T", _builder(cast("Any", kind))(plain))
    except _MisfitError as error:
        owner = get_origin(kind) or kind
        raise RemoteError(f"{owner.__name__}{error.where}{error.what}") from error


def decode_plain(data: bytes, *, limit_bytes: int = MAX_BYTES) -> Plain:
    """Canonical CBOR as lists and scalars.

    Raises:
        RemoteError: as decode.
    """
    if len(data) > limit_bytes:
        raise RemoteError(f"object of {len(data)} bytes exceeds the limit of {limit_bytes}")
    _check_shape(data)
    try:
        plain = cbor2.loads(data)
    except RecursionError as error:
        raise RemoteError("not CBOR of ours: nested too deeply") from error
    except (cbor2.CBORDecodeError, ValueError, OverflowError) as error:
        raise RemoteError(f"not CBOR: {error}") from error
    if cbor2.dumps(plain) != data:
        raise RemoteError("encoding is not canonical")
    return cast("Plain", plain)


def _check_shape(data: bytes) -> None:
    """Walks the heads of all items, so that nothing is built from a false length."""
    end, position, arrays = len(data), 0, 0
    left = 1  # how many items the innermost array still wants
    outer: list[int] = []
    while left or outer:
        if not left:
            left = outer.pop()
            continue
        left -= 1
        if position >= end:
            raise RemoteError("object ends early")
        head = data[position]
        if step := _STEPS[head]:
            position += step
            continue
        argument, position = _argument(data, head, position + 1)
        if head >> 5 != 4:
            position += argument if head >> 5 in (2, 3) else 0
            continue
        arrays += 1
        if argument > end - position or len(outer) >= MAX_DEPTH - 1 or arrays > MAX_ARRAYS:
            raise RemoteError("array longer than the object, or arrays too many or too deep")
        outer.append(left)
        left = argument
    if position != end:
        raise RemoteError("object ends early" if position > end else "bytes after the object")


def _whole_item_bytes(head: int) -> int:
    """Size of an item that its first byte says all about; 0 for any other."""
    major, low = head >> 5, head & 31
    if major == 7:
        return 1 if low in (20, 21, 22) else 0
    if low >= 24:
        return 0
    return {0: 1, 1: 1, 2: 1 + low, 3: 1 + low}.get(major, 0)


_STEPS = tuple(map(_whole_item_bytes, range(256)))


def _argument(data: bytes, head: int, position: int) -> tuple[int, int]:
    low = head & 31
    if head >> 5 > 4:
        raise RemoteError("maps, tags, floats and other simple values are not allowed")
    if low < 24:
        return low, position
    if low > 27:
        raise RemoteError("indefinite lengths are not allowed")
    width = 1 << (low - 24)
    raw = data[position : position + width]
    if len(raw) < width:
        raise RemoteError("object ends early")
    return int.from_bytes(raw), position + width


def _plain(value: Any) -> Any:  # noqa: ANN401 - all that is said is encoded: a cast costs as much as the rest
    kind: Any = type(value)
    if kind in WHOLE:
        return value
    if isinstance(value, int):
        if not INT_LEAST <= value <= INT_MOST:
            raise LocalError("integer of more than 64 bits cannot be encoded")
        return int(value)
    items = value if kind is tuple or kind is list else _values_of(kind)(value)
    # Most are whole, or small numbers, and need no call.
    return [
        i if (t := type(i)) in WHOLE or (t is int and -SMALL < i < SMALL) else _plain(i)
        for i in items
    ]


@cache
def _values_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    names = _field_names(kind)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    if not dataclasses.is_dataclass(kind):
        raise LocalError(f"{kind.__name__} cannot be encoded")
    return tuple(field.name for field in dataclasses.fields(kind))


class _MisfitError(Exception):
    """What does not fit its type, and where; the outer types put their part of the place in front."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = ""

    def inside(self, place: str) -> None:
        self.where = place + self.where


# One builder per type, made once: an object is decoded for each message that comes in.


@cache
def _builder(kind: Any) -> Build:  # noqa: ANN401 - any type expression
    while isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    if kind in ATOMS:
        return _atom_builder(kind)
    origin = get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _optional_builder(kind)
    if origin is tuple:
        options = get_args(kind)
        if len(options) == 2 and options[1] is Ellipsis:
            return _sequence_builder(options[0])
        return _tuple_builder(tuple(map(_builder, options)))
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return _enum_builder(kind)
    if dataclasses.is_dataclass(origin if origin is not None else kind):
        return _dataclass_builder(kind)
    raise LocalError(f"{kind} has no encoding")


def _atom_builder(kind: Atom) -> Build:
    def build(plain: Plain) -> object:
        # bool is an int to isinstance, and true is not 1 in a signed object
        if type(plain) is not kind:
            raise _MisfitError(f" must be {kind.__name__}, got {type(plain).__name__}")
        return plain

    return build


def _optional_builder(kind: Any) -> Build:  # noqa: ANN401
    options = get_args(kind)
    concrete = [option for option in options if option is not types.NoneType]
    if len(concrete) != 1 or len(options) != 2:
        raise LocalError(f"{kind}: only optional types can be decoded")
    inner = _builder(concrete[0])
    return lambda plain: None if plain is None else inner(plain)


def _enum_builder(kind: type[IntEnum]) -> Build:
    members = {int(member): member for member in kind}

    def build(plain: Plain) -> object:
        if type(plain) is not int:
            raise _MisfitError(f" must be int, got {type(plain).__name__}")
        if plain not in members:
            raise _MisfitError(f": {plain} is not a valid {kind.__name__}")
        return members[plain]

    return build


def _sequence_builder(kind: Any) -> Build:  # noqa: ANN401
    builder, atom = _builder(kind), _atom(kind)

    def build(plain: Plain) -> object:
        if type(plain) is not list:
            raise _MisfitError(" must be an array")
        items: list[object] = []
        try:
            for item in plain:
                items.append(item if type(item) is atom else builder(item))  # noqa: PERF401
        except _MisfitError as error:
            error.inside(f"[{len(items)}]")
            raise
        return tuple(items)

    return build


def _tuple_builder(builders: tuple[Build, ...]) -> Build:
    def build(plain: Plain) -> object:
        if type(plain) is not list:
            raise _MisfitError(" must be an array")
        if len(plain) != len(builders):
            raise _MisfitError(f" must have {len(builders)} items, got {len(plain)}")
        items: list[object] = []
        try:
            for builder, item in zip(builders, plain, strict=True):
                items.append(builder(item))
        except _MisfitError as error:
            error.inside(f"[{len(items)}]")
            raise
        return tuple(items)

    return build


def _dataclass_builder(kind: Any) -> Build:  # noqa: ANN401
    owner = get_origin(kind) or kind
    names, hints = _field_names(owner), get_type_hints(owner)
    content = get_args(kind)
    # The one type parameter of a generic dataclass (Signed[Update]) stands for its content.
    wanted = [
        content[0] if isinstance(hints[name], TypeVar) and content else hints[name]
        for name in names
    ]
    fields = [(_builder(hint), _atom(hint)) for hint in wanted]
    if any(field.kw_only for field in dataclasses.fields(owner)):
        raise LocalError(f"{owner.__name__} has keyword-only fields: their order says nothing")

    def build(plain: Plain) -> object:
        if type(plain) is not list or len(plain) != len(fields):
            raise _MisfitError(f" must be an array of {len(fields)} fields")
        values: list[object] = []
        try:
            for (builder, atom), item in zip(fields, plain, strict=True):
                values.append(item if type(item) is atom else builder(item))
        except _MisfitError as error:
            error.inside(f".{names[len(values)]}")
            raise
        try:
            return owner(*values)
        except ValueError as error:
            raise _MisfitError(f": {error}") from error

    return build


class _NoAtom:
    """No plain value is of this type."""


def _atom(kind: Any) -> type:  # noqa: ANN401
    """The type of the plain values that need no builder: the most frequent ones cost no call."""
    while isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    return cast("type", kind) if kind in ATOMS else _NoAtom
