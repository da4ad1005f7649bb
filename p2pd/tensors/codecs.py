"""From values to the file of an update and back. What a codec holds is said in core.codecs.

Everything is judged and merged on the decoded values. Decoding is exact: base plus step in float64,
rounded once to the model's own type, so that decoded values are values that a model can have.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from p2pd.core.codecs import BLOCK_ELEMENTS, SCALE_SUFFIX, is_trained, update_schema
from p2pd.core.work import Schema
from p2pd.errors import RemoteError
from p2pd.tensors.files import TensorFile
from p2pd.tensors.formats import Stored, Values, decode, encode
from p2pd.tensors.layout import quoted

INT8_LARGEST = 127.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an update's file holds one tensor of the model."""

    index: int
    scale: int | None
    """Of its scales, for int8."""
    steps: bool
    """It holds steps from the base, not values."""


@dataclass(frozen=True, slots=True)
class Codec:
    name: str
    model: Schema
    file: Schema
    """Of an update."""
    places: tuple[Place, ...]
    """In the order of the model's tensors."""

    @property
    def needs_base(self) -> bool:
        """Nothing can be said of an update's values without its base."""
        return any(place.steps for place in self.places)

    def stored(self, update: TensorFile, index: int, span: slice | None = None) -> Stored:
        """Of tensor number index of the model, which travels as it is."""
        return update.stored(self.places[index].index, span)

    def values(
        self, update: TensorFile, base: TensorFile | None, index: int, span: slice
    ) -> Values:
        """What tensor number index of the model became: float64, zeros positive.

        Raises:
            RemoteError: values that are not finite.
        """
        place = self.places[index]
        if not place.steps:
            return update.values(place.index, span)
        assert base is not None  # needs_base says so
        steps = _steps(update, place, span)
        tensor = self.model.tensors[index]
        with np.errstate(all="ignore"):  # what overflows is found below
            values = decode(encode(base.values(index, span) + steps, tensor.dtype), tensor.dtype)
        if not np.isfinite(values).all():
            raise RemoteError(f"tensor {quoted(tensor.name)} has values that are not finite")
        return values


def codec_of(name: str, model: Schema) -> Codec:
    """Raises RemoteError: there is no codec of that name."""
    try:
        file = update_schema(model, name)
    except ValueError as error:
        raise RemoteError(str(error)) from error
    numbers = {tensor.name: number for number, tensor in enumerate(file.tensors)}
    places = []
    for tensor in model.tensors:
        index = numbers[tensor.name]
        scale = numbers.get(tensor.name + SCALE_SUFFIX) if name == "int8" else None
        # A model that is small already travels as it is.
        steps = is_trained(tensor) and file.tensors[index].dtype != tensor.dtype
        places.append(Place(index, scale, steps))
    return Codec(name, model, file, tuple(places))


def _steps(update: TensorFile, place: Place, span: slice) -> Values:
    if place.scale is None:
        return update.values(place.index, span)
    units = update.stored(place.index, span).astype(np.float64)
    first = span.start // BLOCK_ELEMENTS
    blocks = slice(first, -(-span.stop // BLOCK_ELEMENTS))
    scales = np.repeat(update.values(place.scale, blocks), BLOCK_ELEMENTS)
    start = span.start - first * BLOCK_ELEMENTS
    return units * scales[start : start + len(units)] + 0.0


Quantizer = Callable[[Values], tuple[dict[str, Stored], Values]]
"""Parts of the file by suffix, and the steps that these stand for."""


def in_bf16(steps: Values) -> tuple[dict[str, Stored], Values]:
    stored = encode(steps, "BF16")
    return {"": stored}, decode(stored, "BF16")


def in_int8(steps: Values) -> tuple[dict[str, Stored], Values]:
    """Each block in units of its largest step over 127, rounded to nearest, ties to even.

    Raises:
        RemoteError: steps so large that no scale holds them.
    """
    count = len(steps)
    blocks = -(-count // BLOCK_ELEMENTS)
    padded = np.zeros(blocks * BLOCK_ELEMENTS)
    padded[:count] = steps
    table = padded.reshape(blocks, BLOCK_ELEMENTS)
    with np.errstate(all="ignore"):  # a scale that overflows is refused, one that underflows is 0
        scales = (np.abs(table).max(axis=1, initial=0.0) / INT8_LARGEST).astype(np.float32)
        wide = scales.astype(np.float64)[:, np.newaxis]
        units = np.where(wide > 0, np.rint(table / np.where(wide > 0, wide, 1.0)), 0.0)
    if not np.isfinite(scales).all():
        raise RemoteError("steps are too large for int8")
    units = np.maximum(np.minimum(units, INT8_LARGEST), -INT8_LARGEST)
    whole = units.reshape(-1)[:count].astype(np.int8)
    return {"": whole, SCALE_SUFFIX: scales}, (units * wide).reshape(-1)[:count] + 0.0


QUANTIZERS: dict[str, Quantizer] = {"bf16": in_bf16, "int8": in_int8}
