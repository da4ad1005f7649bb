"""What codecs make of values, exactly; and what hostile files of updates get."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import CODECS, update_schema
from p2pd.core.ids import ArtifactId
from p2pd.core.work import InspectJob, Schema, TensorSpec, Verdict
from p2pd.errors import RemoteError
from p2pd.tensors.blocks import in_bf16, in_int4, in_int8, packed, unpacked
from p2pd.tensors.codecs import codec_of
from p2pd.tensors.files import ArtifactWriter, TensorFile, write_artifact
from p2pd.tensors.formats import decode, encode
from p2pd.tensors.inspection import inspect
from p2pd.tensors.updates import Trained, residual_schema, write_update

COUNT = 600
MODEL = Schema(
    (
        TensorSpec("half", "F16", (COUNT,), False),
        TensorSpec("mean", "F32", (3,), True),
        TensorSpec("weight", "F32", (2, COUNT // 2), False),
    )
)
ONE = Schema((TensorSpec("weight", "F32", (COUNT,), False),))
BASE, UPDATE = ArtifactId(b"base"), ArtifactId(b"update")


def drawn(seed: int, size: float = 1.0) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    return {
        "half": (chance.normal(size=COUNT) * size).astype(np.float16),
        "mean": chance.normal(size=3).astype(np.float32),
        "weight": (chance.normal(size=(2, COUNT // 2)) * size).astype(np.float32),
    }


def head(path: Path, schema: Schema, arrays: dict[str, Any]) -> TensorFile:
    write_artifact(path, ArtifactKind.HEAD, schema, arrays)
    return TensorFile(path)


def raw(path: Path, codec: str, arrays: dict[str, Any], model: Schema = ONE) -> TensorFile:
    """An update of any content."""
    schema = update_schema(model, codec)
    with ArtifactWriter(path, ArtifactKind.UPDATE, schema) as writer:
        for tensor in schema.tensors:
            writer.write(arrays[tensor.name])
        writer.finish()
    return TensorFile(path)


def judged(tmp_path: Path, codec: str, model: Schema = ONE) -> Verdict:
    paths = {BASE: tmp_path / "base", UPDATE: tmp_path / "update"}
    return inspect(paths, InspectJob(UPDATE, BASE, model, codec)).verdict


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_decoded_is_what_the_model_became_up_to_the_codecs_error(
    tmp_path: Path, codec: str
) -> None:
    base = head(tmp_path / "base", MODEL, drawn(1))
    end = drawn(1)
    moved = drawn(2, 0.01)
    for name in ("half", "weight"):
        end[name] = (end[name] + moved[name]).astype(end[name].dtype)
    end["mean"] = moved["mean"]
    made = codec_of(codec, MODEL)
    write_update(tmp_path / "update", made, base, Trained(end, None), None)
    update = TensorFile(tmp_path / "update")
    assert judged(tmp_path, codec, MODEL) is Verdict.ACCEPTED
    for index, tensor in enumerate(MODEL.tensors):
        values = made.values(update, base, index, slice(0, end[tensor.name].size))
        wanted = end[tensor.name].reshape(-1).astype(np.float64)
        steps = np.abs(wanted - base.values(index, slice(None))).max()
        share = 12 if codec == "int4" else 100
        assert np.abs(values - wanted).max() <= (0 if tensor.buffer else steps / share)
        if codec == "f32":
            assert (values == wanted).all()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.floats(0, 2.0**60, width=32), min_size=3, max_size=3),
    st.integers(0, COUNT - 1),
    st.integers(1, COUNT),
)
def test_i06_int8_is_a_whole_number_times_its_blocks_scale_whatever_the_span(
    tmp_path_factory: pytest.TempPathFactory, seed: int, scale: list[float], start: int, size: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("int8")
    chance = np.random.default_rng(seed)
    numbers = chance.integers(-128, 128, COUNT).astype(np.int8)
    values = (chance.normal(size=COUNT) * 100).astype(np.float32)
    scales = np.array(scale, np.float32)
    stop = min(COUNT, start + size)
    base = head(tmp_path / "base", ONE, {"weight": values})
    update = raw(tmp_path / "update", "int8", {"weight": numbers, "weight/scale": scales})
    found = codec_of("int8", ONE).values(update, base, 0, slice(start, stop))
    for place in range(start, stop):
        exact = Fraction(float(base.values(0, slice(place, place + 1))[0])) + int(
            numbers[place]
        ) * Fraction(float(scales[place // 256]))
        # float64 holds base plus step up to its own rounding, which float32 then rounds once more.
        assert found[place - start] == np.float32(float(exact)) + 0.0


def test_an_int8_block_loses_at_most_half_a_unit_of_its_own_largest() -> None:
    chance = np.random.default_rng(3)
    steps = chance.normal(size=1000) * np.repeat([1e-6, 1.0, 1e6, 0.0], 250)
    parts, decoded = in_int8(steps)
    assert parts[""].dtype == np.int8
    assert len(parts["/scale"]) == 4
    for block in range(4):
        span = slice(256 * block, 256 * (block + 1))
        largest = np.abs(steps[span]).max()
        assert np.abs(decoded[span] - steps[span]).max() <= largest / 254 * 1.0001


@pytest.mark.parametrize("quantize", [in_bf16, in_int8, in_int4])
@pytest.mark.parametrize("steps", [[], [0.0] * 300, [1e-300], [1e-46, -1e-46]])
def test_nothing_and_next_to_nothing_travel_as_such(quantize: Any, steps: list[float]) -> None:
    _, decoded = quantize(np.array(steps))
    assert len(decoded) == len(steps)
    assert np.abs(decoded).max(initial=0.0) <= 2e-45


@pytest.mark.parametrize(("name", "quantize"), [("int8", in_int8), ("int4", in_int4)])
def test_steps_that_no_scale_holds_are_refused(name: str, quantize: Any) -> None:
    with pytest.raises(RemoteError, match=f"too large for {name}"):
        quantize(np.array([1e300]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(-140, 120))
def test_i06_int4_says_the_same_steps_in_the_same_bytes_and_its_own_files_are_taken(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, magnitude: int
) -> None:
    """What was decoded is encoded to the very same file; half a unit of the largest step is lost at most."""
    chance = np.random.default_rng(seed)
    steps = chance.normal(size=count) * 2.0**magnitude
    parts, decoded = in_int4(steps)
    again, twice = in_int4(decoded)
    assert {name: part.tobytes() for name, part in parts.items()} == {
        name: part.tobytes() for name, part in again.items()
    }
    assert (decoded == twice).all()
    for block in range(0, count, 64):
        largest = np.abs(steps[block : block + 64]).max()
        lost = np.abs(decoded - steps)[block : block + 64].max()
        assert lost <= max(largest / 14 * 1.0001, 7.1 * 2.0**-126)
    tmp_path = tmp_path_factory.mktemp("int4")
    schema = Schema((TensorSpec("weight", "F32", (count,), False),))
    base = head(tmp_path / "base", schema, {"weight": np.zeros(count, np.float32)})
    arrays = {"weight": parts[""], "weight/scale": parts["/scale"]}
    update = raw(tmp_path / "update", "int4", arrays, schema)
    assert judged(tmp_path, "int4", schema) is Verdict.ACCEPTED
    start = int(chance.integers(0, count))
    found = codec_of("int4", schema).values(update, base, 0, slice(start, count))
    assert (found == decoded[start:].astype(np.float32)).all()


def test_halves_of_bytes_hold_the_numbers_from_minus_8_to_7() -> None:
    numbers = np.arange(-8, 8)
    assert unpacked(packed(numbers.astype(np.float64))).tolist() == numbers.tolist()
    assert packed(np.array([1.0, -1.0, 7.0])).tolist() == [0xF1, 0x07]


@pytest.mark.parametrize("fault", ["padding", "beyond", "sign", "denormal", "units", "zero"])
def test_i08_int4_in_other_bytes_than_its_writers_is_refused(tmp_path: Path, fault: str) -> None:
    """Else one update could be had under many names."""
    schema = Schema((TensorSpec("weight", "F32", (131,), False),))
    parts, _ = in_int4(np.append(np.linspace(-1, 1, 130), 0.5))
    numbers, scales = parts[""].copy(), parts["/scale"].copy()
    match fault:
        case "padding":
            numbers[-1] |= 0x10
        case "beyond":
            numbers[0] = 0x88
        case "sign":
            scales[0] = -scales[0]
        case "denormal":
            scales[0] = 1e-40
        case "units":  # half of them, with twice the scale
            numbers[:32] = packed(np.rint(unpacked(numbers[:32]).astype(np.float64) / 2))
            scales[0] *= 2
        case "zero":
            numbers[:32] = 0
    head(tmp_path / "base", schema, {"weight": np.zeros(131, np.float32)})
    raw(tmp_path / "update", "int4", {"weight": numbers, "weight/scale": scales}, schema)
    assert judged(tmp_path, "int4", schema) is Verdict.LAYOUT


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, 3e38])
def test_i08_a_scale_that_gives_no_finite_value_is_refused(tmp_path: Path, scale: float) -> None:
    base = head(tmp_path / "base", ONE, {"weight": np.ones(COUNT, np.float32)})
    scales = np.array([1, scale, 1], np.float32)
    numbers = np.full(COUNT, 100, np.int8)
    update = raw(tmp_path / "update", "int8", {"weight": numbers, "weight/scale": scales})
    assert judged(tmp_path, "int8") is Verdict.NONFINITE
    codec = codec_of("int8", ONE)
    assert codec.values(update, base, 0, slice(0, 256)).max() == 101
    with pytest.raises(RemoteError, match="not finite"):
        codec.values(update, base, 0, slice(200, 300))


@pytest.mark.parametrize("step", [np.nan, np.inf, 3.0e38])
def test_i08_a_bf16_step_that_gives_no_finite_value_is_refused(tmp_path: Path, step: float) -> None:
    head(tmp_path / "base", ONE, {"weight": np.full(COUNT, 2e38, np.float32)})
    steps = encode(np.full(COUNT, step), "BF16")
    raw(tmp_path / "update", "bf16", {"weight": steps})
    assert judged(tmp_path, "bf16") is Verdict.NONFINITE


@pytest.mark.parametrize("codec", ["bf16", "int8", "int4"])
def test_i08_an_update_in_another_codec_is_of_another_schema(tmp_path: Path, codec: str) -> None:
    """Wrong sizes, missing scales, plain values: one canonical layout, so all of them differ from it."""
    plain = {"weight": np.ones(COUNT, np.float32)}
    head(tmp_path / "base", ONE, plain)
    raw(tmp_path / "update", "f32", plain)
    assert judged(tmp_path, codec) is Verdict.SCHEMA
    (tmp_path / "update").unlink()
    scales = Schema(
        (
            TensorSpec("weight", "I8", (COUNT,), False),
            TensorSpec("weight/scale", "F32", (2,), False),
        )
    )
    with ArtifactWriter(tmp_path / "update", ArtifactKind.UPDATE, scales) as writer:
        writer.write(np.zeros(COUNT, np.int8))
        writer.write(np.zeros(2, np.float32))
        writer.finish()
    assert judged(tmp_path, codec) is Verdict.SCHEMA


@pytest.mark.parametrize("codec", ["bf16", "int8", "int4"])
def test_with_error_feedback_nothing_is_lost_in_the_long_run(tmp_path: Path, codec: str) -> None:
    """The base stands still, each lease moves by one step: all decoded steps add up to all steps."""
    made = codec_of(codec, ONE)
    start = np.zeros(COUNT, np.float32)
    base = head(tmp_path / "base", ONE, {"weight": start})
    chance = np.random.default_rng(7)
    fed, plain, total = np.zeros(COUNT), np.zeros(COUNT), np.zeros(COUNT)
    residual = None
    drift = (chance.normal(size=COUNT) * 0.001).astype(np.float32)
    for lease in range(90):
        steps = drift + (chance.normal(size=COUNT) * 0.01).astype(np.float32)
        steps[::256] = 1.0
        total += steps
        for name, before in (("fed", residual), ("plain", None)):
            path = tmp_path / f"{name}-{lease}"
            _, left = write_update(path, made, base, Trained({"weight": steps}, None), before)
            decoded = made.values(TensorFile(path), base, 0, slice(0, COUNT))
            if name == "fed":
                fed += decoded
                residual = {key: value.astype(np.float64) for key, value in left.items()}
            else:
                plain += decoded
    assert residual is not None
    assert np.abs(fed + residual["weight"] - total).max() < 1e-5
    assert np.abs(fed - total).max() < np.abs(plain - total).max() / 3


def test_the_residual_is_of_what_the_codec_changes(tmp_path: Path) -> None:
    names = {
        codec: [t.name for t in residual_schema(codec_of(codec, MODEL)).tensors] for codec in CODECS
    }
    assert names == {
        "f32": [],
        "bf16": ["weight"],
        "int8": ["half", "weight"],
        "int4": ["half", "weight"],
    }


@pytest.mark.parametrize("codec", CODECS)
def test_the_steps_of_a_lease_that_did_not_start_from_the_base_are_put_onto_it(
    tmp_path: Path, codec: str
) -> None:
    base = head(tmp_path / "base", ONE, {"weight": np.full(COUNT, 10, np.float32)})
    begun = np.full(COUNT, 3, np.float32)
    ended = np.full(COUNT, 3.5, np.float32)
    made = codec_of(codec, ONE)
    trained = Trained({"weight": ended}, {"weight": begun})
    write_update(tmp_path / "update", made, base, trained, None)
    values = made.values(TensorFile(tmp_path / "update"), base, 0, slice(0, COUNT))
    assert np.abs(values - 10.5).max() < 0.01
    assert decode(encode(values, "F32"), "F32").tolist() == values.tolist()


def test_i08_an_unknown_codec_is_refused_by_name() -> None:
    with pytest.raises(RemoteError, match=r"codec 'f31' is none of f32"):
        codec_of("f31", ONE)
