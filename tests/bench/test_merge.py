from p2pd.bench import merge
from p2pd.bench.suite import Options
from p2pd.core.work import Schema


def elements(schema: Schema) -> list[int]:
    return [tensor.shape[0] for tensor in schema.tensors]


def test_a_model_has_the_size_asked_for_in_tensors_that_are_not_too_large() -> None:
    assert elements(merge.model(0.000001)) == [1]
    assert elements(merge.model(0.4)) == [100_000]
    assert elements(merge.model(40.0)) == [2**22, 2**22, 10_000_000 - 2**23]


def test_merges_are_measured_in_the_math_process_and_beside_torch() -> None:
    said: list[str] = []
    rows = {row.name: row for row in merge.run(Options(said.append, (0.2,), 1))}
    beside = [row for name, row in rows.items() if name.startswith("4 x 0.2 MB mean, torch")]
    assert beside
    for row in beside:
        assert row.unit == "s"
        assert row.floor is not None
        assert row.ratio == row.value / row.floor
    for rule in ("mean", "norm_clipped_mean", "trimmed_mean"):
        assert (rows[f"4 x 0.2 MB {rule}"].unit) == "GB/s"
        assert rows[f"4 x 0.2 MB {rule}"].value > 0
    memory = rows["16 x 0.2 MB peak memory"]
    assert (memory.unit, memory.floor) == ("MB", 3.2)
    assert memory.value > 1
