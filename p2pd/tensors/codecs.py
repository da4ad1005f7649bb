"""From values to the file of an update and back. What a codec holds is said in core.codecs.

Everything is judged and merged on the decoded values. Decoding is exact: base plus step in float64,
rounded once to the model's own type, so that decoded values are values that a model can have.
"""

from dataclasses import dataclass

import numpy as np

from p2pd.core.codecs import (
    BLOCK_ELEMENTS,
    PACKED,
    SCALE_SUFFIX,
    is_trained,
    update_schema,
)
from p2pd.core.work import Schema
from p2pd.errors import RemoteError
from p2pd.tensors.blocks import misfit, times_scales, unpacked
from p2pd.tensors.files import TensorFile
from p2pd.tensors.formats import Stored, Values, decode, encode
from p2pd.tensors.layout import quoted


@dataclass(frozen=True, slots=True)
class Place:
    """Where an update's file holds one tensor of the model."""

    index: int
    scale: int | None
    """Of its scales, for int8 and int4."""
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
        steps = self.steps(update, index, span)
        tensor = self.model.tensors[index]
        with np.errstate(all="ignore"):  # what overflows is found below
            values = decode(encode(base.values(index, span) + steps, tensor.dtype), tensor.dtype)
        if not np.isfinite(values).all():
            raise RemoteError(f"tensor {quoted(tensor.name)} has values that are not finite")
        return values

    def steps(self, update: TensorFile, index: int, span: slice) -> Values:
        """Of a tensor of which the file holds steps. Raises RemoteError: what it holds is not finite."""
        return _steps(self.name, update, self.places[index], span)

    def misfit(self, update: TensorFile, index: int, span: slice) -> str | None:
        """What of int4 another file would say in fewer words: the same steps are the same bytes.

        The span begins where a block does.
        """
        place = self.places[index]
        if self.name != "int4" or place.scale is None:
            return None
        size, tensor = BLOCK_ELEMENTS[self.name], self.model.tensors[index]
        packed = update.stored(place.index, slice(span.start // PACKED, -(-span.stop // PACKED)))
        blocks = slice(span.start // size, -(-span.stop // size))
        found = misfit(packed, update.stored(place.scale, blocks), span.stop - span.start)
        return f"tensor {quoted(tensor.name)} {found}" if found else None


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
        scale = numbers.get(tensor.name + SCALE_SUFFIX) if name in BLOCK_ELEMENTS else None
        # A model that is small already travels as it is.
        steps = is_trained(tensor) and file.tensors[index].dtype != tensor.dtype
        places.append(Place(index, scale, steps))
    return Codec(name, model, file, tuple(places))


def _steps(name: str, update: TensorFile, place: Place, span: slice) -> Values:
    if place.scale is None:
        return update.values(place.index, span)
    size = BLOCK_ELEMENTS[name]
    first = span.start // size
    scales = update.values(place.scale, slice(first, -(-span.stop // size)))
    return times_scales(_units(name, update, place, span), scales, span.start - first * size, size)


def _units(name: str, update: TensorFile, place: Place, span: slice) -> Values:
    """Whole numbers."""
    if name != "int4":
        return update.stored(place.index, span).astype(np.float64)
    first = span.start // PACKED
    packed = update.stored(place.index, slice(first, -(-span.stop // PACKED)))
    start = span.start - first * PACKED
    return unpacked(packed)[start : start + span.stop - span.start].astype(np.float64)
