"""How an update travels: what tensors its file holds, by the codec of its revision.

`f32` carries the values themselves, in the model's own types. The others carry the steps, value minus
base, of every trained tensor: `bf16` rounded to that type, `int8` and `int4` as whole numbers times a
scale of each block, of the latter two in a byte. Buffers always travel as values. Units: elements.
"""

from p2pd.core.work import Schema, TensorSpec

CODECS = ("f32", "bf16", "int8", "int4")
BLOCK_ELEMENTS = {"int8": 256, "int4": 64}
"""That share a scale, counted over the flattened tensor; the last block may be shorter."""
PACKED = 2
"""Numbers of int4 in a byte, the lower half first; the last upper half may be empty, and is 0 then."""
HEAD_CODECS = ("f32", "int8")
"""How a head may follow from the one before: as merged, or as int8 steps upon it."""
SCALE_SUFFIX = "/scale"
"""No attribute of a module has a slash in its name, so it collides with nothing."""
FLOATING = frozenset({"F64", "F32", "F16", "BF16"})
HALVED = frozenset({"F64", "F32"})
"""Types that bf16 makes smaller."""


def check_head_codec(codec: str) -> None:
    """Raises ValueError: no head travels so."""
    if codec not in HEAD_CODECS:
        raise ValueError(f"head codec {codec!r:.40} is none of {', '.join(HEAD_CODECS)}")


def carries_values(codec: str) -> bool:
    """An update is looked at without its base."""
    return codec == "f32"


def is_trained(tensor: TensorSpec) -> bool:
    """Floating and no buffer: what optimizers move, and what has features."""
    return tensor.dtype in FLOATING and not tensor.buffer


def update_schema(model: Schema, codec: str) -> Schema:
    """The tensors of an update's file.

    Raises:
        ValueError: no such codec, or the model has a tensor by the name of a scale.
    """
    if codec not in CODECS:
        raise ValueError(f"codec {codec!r:.40} is none of {', '.join(CODECS)}")
    if codec == "f32":
        return model
    found: list[TensorSpec] = []
    for tensor in model.tensors:
        if not is_trained(tensor):
            found.append(tensor)
        elif codec in BLOCK_ELEMENTS:
            found += _numbers_and_scales(tensor, codec)
        else:
            dtype = "BF16" if tensor.dtype in HALVED else tensor.dtype
            found.append(TensorSpec(tensor.name, dtype, tensor.shape, False))
    return Schema(tuple(sorted(found, key=lambda tensor: tensor.name)))


def _numbers_and_scales(tensor: TensorSpec, codec: str) -> tuple[TensorSpec, TensorSpec]:
    count = element_count(tensor)
    numbers = TensorSpec(tensor.name, "I8", tensor.shape, False)
    if codec == "int4":
        numbers = TensorSpec(tensor.name, "U8", (-(-count // PACKED),), False)
    blocks = -(-count // BLOCK_ELEMENTS[codec])
    return numbers, TensorSpec(tensor.name + SCALE_SUFFIX, "F32", (blocks,), False)


def outer_schema(model: Schema, parts: int = 1) -> Schema:
    """What is certified beside a head: float32 for every trained tensor, of several parts one after the other
    for each element."""
    trained = (tensor for tensor in model.tensors if is_trained(tensor))
    return Schema(
        tuple(
            TensorSpec(
                one.name, "F32", one.shape if parts == 1 else (element_count(one), parts), False
            )
            for one in trained
        )
    )


def element_count(tensor: TensorSpec) -> int:
    elements = 1
    for side in tensor.shape:
        elements *= side
    return elements
