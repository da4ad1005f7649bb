import json

from p2pd.bench.suite import BENCHES
from tests.cli.commands import p2pd

ROW = {"name", "value", "unit", "floor", "floor_name", "ratio"}


def test_rows_are_one_json_line_for_scripts_and_the_table_goes_to_standard_error() -> None:
    ran = p2pd("bench", "simulate", "--repeats", 1, "--json")
    assert ran.code == 0, ran.err
    (line,) = ran.out.splitlines()
    found = json.loads(line)
    assert found["bench"] == "simulate"
    assert {frozenset(row) for row in found["rows"]} == {frozenset(ROW)}
    assert "faults none: decisions" in ran.err


def test_an_unknown_bench_is_a_usage_error_that_names_the_known_ones() -> None:
    ran = p2pd("bench", "moonshine")
    assert ran.code == 2
    assert ran.err == f"p2pd: there is no bench 'moonshine': known are {', '.join(BENCHES)}\n"


def test_every_bench_has_a_module_and_says_what_it_measures() -> None:
    help_text = p2pd("bench", "--help").out
    assert all(name in help_text for name in BENCHES)
