from pathlib import Path

from p2pd.core.ids import ArtifactId
from p2pd.core.work import InspectJob, Verdict
from p2pd.tensors.inspection import inspect
from tests.tensors.merge_bench import Bench, schema_of


def test_float64_too_large_to_be_summed_counts_as_not_finite(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schema_of("F64", 1))
    update = bench.add([2.0**901])
    found = inspect(bench.paths, InspectJob(update, update, bench.schema))
    assert found.verdict is Verdict.NONFINITE


def test_an_inspection_tells_layout_schema_and_truth_values(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schema_of("BOOL", 2))
    good, odd = bench.add([0, 1]), bench.add([0, 2])
    torn = ArtifactId(b"torn")
    bench.paths[torn] = tmp_path / "torn"
    bench.paths[torn].write_bytes(b"nothing of the kind")
    other = schema_of("BOOL", 3)
    assert inspect(bench.paths, InspectJob(good, good, bench.schema)).verdict is Verdict.ACCEPTED
    assert inspect(bench.paths, InspectJob(good, good, bench.schema)).detail == ""
    assert inspect(bench.paths, InspectJob(odd, good, bench.schema)).verdict is Verdict.LAYOUT
    assert inspect(bench.paths, InspectJob(torn, good, bench.schema)).verdict is Verdict.LAYOUT
    assert inspect(bench.paths, InspectJob(good, good, other)).verdict is Verdict.SCHEMA
