import pytest

from p2pd.core.codecs import CODECS, element_count, is_trained, update_schema
from p2pd.core.gates import largest_artifact_bytes
from p2pd.core.work import Schema, TensorSpec

MODEL = Schema(
    (
        TensorSpec("count", "I64", (), True),
        TensorSpec("half", "BF16", (300,), False),
        TensorSpec("mean", "F32", (5,), True),
        TensorSpec("weight", "F32", (3, 257), False),
    )
)


def specs(codec: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {
        tensor.name: (tensor.dtype, tensor.shape) for tensor in update_schema(MODEL, codec).tensors
    }


def test_plain_updates_hold_what_the_model_holds() -> None:
    assert update_schema(MODEL, "f32") is MODEL


def test_bf16_halves_what_is_larger_and_leaves_buffers_alone() -> None:
    assert specs("bf16") == {
        "count": ("I64", ()),
        "half": ("BF16", (300,)),
        "mean": ("F32", (5,)),
        "weight": ("BF16", (3, 257)),
    }


def test_int8_has_a_scale_for_each_block_and_leaves_buffers_alone() -> None:
    assert specs("int8") == {
        "count": ("I64", ()),
        "half": ("I8", (300,)),
        "half/scale": ("F32", (2,)),
        "mean": ("F32", (5,)),
        "weight": ("I8", (3, 257)),
        "weight/scale": ("F32", (4,)),
    }


def test_int4_packs_two_numbers_into_a_byte_and_has_smaller_blocks() -> None:
    assert specs("int4") == {
        "count": ("I64", ()),
        "half": ("U8", (150,)),
        "half/scale": ("F32", (5,)),
        "mean": ("F32", (5,)),
        "weight": ("U8", (386,)),
        "weight/scale": ("F32", (13,)),
    }


def test_the_size_limit_of_an_update_follows_its_codec() -> None:
    large = Schema((TensorSpec("weight", "F32", (1000, 1000), False),))
    sizes = [largest_artifact_bytes(update_schema(large, codec)) for codec in CODECS]
    assert sizes[0] > 1.9 * sizes[1] > 3.7 * sizes[2] > 6.6 * sizes[3]


def test_what_optimizers_move_is_trained() -> None:
    assert [tensor.name for tensor in MODEL.tensors if is_trained(tensor)] == ["half", "weight"]
    assert [element_count(tensor) for tensor in MODEL.tensors] == [1, 300, 5, 771]


def test_unknown_codecs_and_names_that_collide_are_refused() -> None:
    with pytest.raises(ValueError, match="codec 'int2' is none of f32, bf16, int8, int4"):
        update_schema(MODEL, "int2")
    twins = [TensorSpec(name, "F32", (1,), False) for name in ("weight", "weight/scale")]
    with pytest.raises(ValueError, match="unique"):
        update_schema(Schema(tuple(twins)), "int8")
