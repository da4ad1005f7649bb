from pathlib import Path

import pytest

from p2pd.bench.communication import WAYS, report
from p2pd.bench.communication_course import TRAINERS, Trial
from p2pd.bench.suite import Options, run_bench
from p2pd.errors import LocalError, UsageError
from p2pd.tensors.layout import layout_of
from p2pd.workload.session import build_workload

STEPS, BATCH = 3, 2
DIGITS = {"hidden": 40, "batch": BATCH}


def trial(codec: str, head_codec: str, heads: int = 4) -> dict[str, float]:
    return Trial(
        workload="p2pd.workloads.digits",
        config=DIGITS,
        batch=BATCH,
        steps=STEPS,
        heads=heads,
        codec=codec,
        head_codec=head_codec,
        seed=0,
    ).run()


def test_what_travels_is_counted_as_it_travels() -> None:
    """Three updates out and one head in, with what the protocol says around them."""
    schema = build_workload("p2pd.workloads.digits", DIGITS).schema()
    model_bytes = layout_of(schema.tensors).size_bytes
    plain, small = trial("f32", "f32"), trial("int8", "int8")
    for found in (plain, small):
        assert found["parameters"] == 64 * 40 + 40 + 40 * 10 + 10
        assert found["gradients_bytes"] == 4 * found["parameters"] * STEPS
        assert found["reduced_bytes"] == found["gradients_bytes"] * 2 * (TRAINERS - 1) / TRAINERS
    assert plain["update_bytes"] == model_bytes
    assert small["update_bytes"] < model_bytes / 3
    said = plain["wire_bytes"] - 4 * model_bytes
    assert 0 < said < 40_000
    assert abs(small["wire_bytes"] - 4 * small["update_bytes"] - said) < said / 2


def test_too_few_windows_measure_nothing() -> None:
    with pytest.raises(LocalError, match="too few windows"):
        trial("f32", "f32", heads=1)


def test_each_way_stands_beside_its_bytes_and_the_loss_beside_that_of_f32() -> None:
    means = [
        {
            "loss": 2.0 + number / 100,
            "parameters": 1e6,
            "gradients_bytes": 200e6,
            "update_bytes": 1e6,
            "reduced_bytes": 300e6,
            "wire_bytes": 7.5e6 if head_codec == "f32" else 4e6,
        }
        for number, (_, head_codec) in enumerate(WAYS)
    ]
    ratios = {row.name: row.ratio for row in report(means)}
    assert ratios["int4: gradients of 50 steps"] == 200
    assert ratios["int8: all-reduce of 50 steps"] == 40
    assert ratios["int8, heads int8: all-reduce of 50 steps"] == 75
    assert ratios["f32: last loss"] == 1
    assert ratios["int4, heads int8: last loss"] == pytest.approx(1.025)
    assert "int8, heads int8: gradients of 50 steps" not in ratios


def test_a_bench_that_trains_on_nothing_takes_no_data(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data: bench votes trains on nothing"):
        run_bench("votes", Options(print, data=tmp_path))
