"""Frozen dataclasses to and from canonical CBOR: arrays, integers, bytes, text, booleans and null only.

A dataclass is the array of its fields, in order. Each object has exactly one encoding: what is
decoded is encoded again and compared. Sizes and depth are checked before memory is taken.
Source: RFC 8949 4.2.1, less maps, tags and floats.
"""

import dataclasses
import types
import typing
from enum import IntEnum
from functools import cache
from io import BytesIO
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import cbor2

from p2pd.errors import LocalError, RemoteError

MAX_BYTES = 8 * 2**20
"""Largest object that decode takes unless its caller sets another limit."""
MAX_DEPTH = 24
INT_BITS = 64

T = TypeVar("T")
Plain = None | bool | int | bytes | str | list["Plain"]


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
    owner = get_origin(kind) or kind
    return cast("T", _build(kind, plain, owner.__name__))


def decode_plain(data: bytes, *, limit_bytes: int = MAX_BYTES) -> Plain:
    """Canonical CBOR as lists and scalars.

    Raises:
        RemoteError: as decode.
    """
    if len(data) > limit_bytes:
        raise RemoteError(f"object of {len(data)} bytes exceeds the limit of {limit_bytes}")
    _check_shape(data)
    stream = BytesIO(data)
    try:
        plain = cbor2.CBORDecoder(stream).decode()
    except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError) as error:
        raise RemoteError(f"not CBOR: {error}") from error
    if cbor2.dumps(plain) != data:
        raise RemoteError("encoding is not canonical")
    return cast("Plain", plain)


def _check_shape(data: bytes) -> None:
    """Walks the heads of all items, so that nothing is built from a false length."""
    end, position = len(data), 0
    open_items = [1]  # how many items each enclosing array still wants
    while open_items:
        if open_items[-1] == 0:
            open_items.pop()
            continue
        open_items[-1] -= 1
        if position >= end:
            raise RemoteError("object ends early")
        major, low = data[position] >> 5, data[position] & 31
        position += 1
        if major == 7 and low in (20, 21, 22):
            continue
        argument, position = _argument(data, low, position)
        if major in (2, 3):
            position += argument
        elif major == 4:
            if argument > end - position or len(open_items) >= MAX_DEPTH:
                raise RemoteError("array longer than the object, or nested too deep")
            open_items.append(argument)
        elif major > 4:
            raise RemoteError("maps, tags, floats and other simple values are not allowed")
    if position != end:
        raise RemoteError("object ends early" if position > end else "bytes after the object")


def _argument(data: bytes, low: int, position: int) -> tuple[int, int]:
    if low < 24:
        return low, position
    if low > 27:
        raise RemoteError("indefinite lengths are not allowed")
    width = 1 << (low - 24)
    raw = data[position : position + width]
    if len(raw) < width:
        raise RemoteError("object ends early")
    return int.from_bytes(raw), position + width


def _plain(value: object) -> Plain:
    if value is None or isinstance(value, bool | bytes | str):
        return value
    if isinstance(value, int):
        if not -(2**INT_BITS) <= value < 2**INT_BITS:
            raise LocalError(f"integer of more than {INT_BITS} bits cannot be encoded")
        return int(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, name)) for name in _field_names(type(value))]
    raise LocalError(f"{type(value).__name__} cannot be encoded")


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _field_types(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((name, hints[name]) for name in _field_names(kind))


def _build(
    kind: Any,  # noqa: ANN401 - any type expression
    plain: Plain,
    where: str,
) -> object:
    while isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    if kind in (int, bytes, str, bool, None, types.NoneType):
        wanted = types.NoneType if kind is None else kind
        if type(plain) is not wanted:
            raise RemoteError(f"{where} must be {wanted.__name__}, got {type(plain).__name__}")
        return plain
    origin = get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _build_union(get_args(kind), plain, where)
    if origin is tuple:
        return _build_tuple(get_args(kind), plain, where)
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        try:
            return kind(cast("int", _build(int, plain, where)))
        except ValueError as error:
            raise RemoteError(f"{where}: {error}") from error
    owner = origin if origin is not None else kind
    if dataclasses.is_dataclass(owner):
        return _build_dataclass(kind, plain, where)
    raise LocalError(f"{where}: {kind} has no encoding")


def _build_union(options: tuple[Any, ...], plain: Plain, where: str) -> object:
    if plain is None and types.NoneType in options:
        return None
    concrete = [option for option in options if option is not types.NoneType]
    if len(concrete) != 1:
        raise LocalError(f"{where}: only optional types can be decoded")
    return _build(concrete[0], plain, where)


def _build_tuple(options: tuple[Any, ...], plain: Plain, where: str) -> object:
    if not isinstance(plain, list):
        raise RemoteError(f"{where} must be an array")
    if len(options) == 2 and options[1] is Ellipsis:
        return tuple(_build(options[0], item, f"{where}[{n}]") for n, item in enumerate(plain))
    if len(plain) != len(options):
        raise RemoteError(f"{where} must have {len(options)} items, got {len(plain)}")
    return tuple(
        _build(option, item, f"{where}[{n}]")
        for n, (option, item) in enumerate(zip(options, plain, strict=True))
    )


def _build_dataclass(
    kind: Any,  # noqa: ANN401
    plain: Plain,
    where: str,
) -> object:
    owner = get_origin(kind) or kind
    content = get_args(kind)
    fields = _field_types(owner)
    if not isinstance(plain, list) or len(plain) != len(fields):
        raise RemoteError(f"{where} must be an array of {len(fields)} fields")
    values = {}
    for (name, hint), item in zip(fields, plain, strict=True):
        # The one type parameter of a generic dataclass (Signed[Update]) stands for its content.
        wanted = content[0] if isinstance(hint, TypeVar) and content else hint
        values[name] = _build(wanted, item, f"{where}.{name}")
    try:
        return owner(**values)
    except ValueError as error:
        raise RemoteError(f"{where}: {error}") from error
