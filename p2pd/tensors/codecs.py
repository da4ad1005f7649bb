"""How an update's tensors travel: what its file holds, and the values that this stands for.

Everything is judged and merged on the decoded values. A revision has one codec.
"""

from typing import Protocol

from p2pd.core.work import Schema
from p2pd.tensors.files import TensorFile
from p2pd.tensors.formats import Values


class Codec(Protocol):
    def file_schema(self, model: Schema) -> Schema:
        """The tensors that an update of such a model consists of."""
        ...

    def values(self, update: TensorFile, base: TensorFile, index: int, span: slice) -> Values:
        """What tensor number index of the model became: float64, zeros positive.

        Raises:
            RemoteError: values that are not finite.
        """
        ...


class PlainValues:
    """Codec f32: the values themselves, base plus own steps, cast once to the model's own types."""

    def file_schema(self, model: Schema) -> Schema:
        return model

    def values(self, update: TensorFile, base: TensorFile, index: int, span: slice) -> Values:
        return update.values(index, span)
