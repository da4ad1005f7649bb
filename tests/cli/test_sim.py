import re

import pytest

from p2pd.cli.sim import Reporter, summary
from p2pd.sim.breaks import Break
from p2pd.sim.checkers import Violation
from p2pd.sim.suite import FaultSet, FleetShape, Liveness, SeedResult, SuiteResult
from tests.cli.commands import p2pd

LIVE = Liveness(held=True, within_s=180.0, longest_s=31.0)
FOUND = Violation(7, "I1", 4, "two certificates")


def result(*, ok: bool, violations: tuple[Violation, ...], found: int | None) -> SuiteResult:
    return SuiteResult(ok, 3, 10, 33, violations, "ab" * 32, 1.5, LIVE, found)


@pytest.mark.parametrize(
    ("ok", "violations", "found", "said"),
    [
        (True, (), None, "all invariants held: 3 fleets, 33 decisions, the longest wait after"),
        (False, (FOUND,), None, "1 violation: 3 fleets"),
        (True, (FOUND,), 3, "the broken defence was noticed after 3 fleets: 3 fleets"),
        (False, (), None, "the broken defence was not noticed: 3 fleets"),
    ],
)
def test_a_summary_says_what_came_out(
    ok: bool, violations: tuple[Violation, ...], found: int | None, said: str
) -> None:
    assert summary(result(ok=ok, violations=violations, found=found)).startswith(said)


def test_one_of_a_kind_is_said_in_the_singular() -> None:
    one = SuiteResult(True, 1, 10, 1, (), "ab" * 32, 1.5, LIVE, 1)
    said = summary(one)
    assert said.startswith("the broken defence was noticed after 1 fleet: 1 fleet, 1 decision, ")


def test_a_finding_comes_with_the_command_that_shows_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(FleetShape(windows=5, faults=FaultSet.CRASH, broken=Break.QUORUM))
    reporter.report(SeedResult(6, 30, "", ()))
    reporter.report(SeedResult(7, 30, "", (FOUND,)))
    again = "p2pd sim --seed 7 --windows 5 --faults crash --break quorum"
    assert reporter.commands == [again]
    assert f"seed 7, height 4: I1: two certificates  ({again})" in capsys.readouterr().err


def test_a_small_fleet_runs_and_its_result_is_json() -> None:
    ran = p2pd("sim", "--sharded", "--seed", 3, "--windows", 1, "--faults", "none", "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert (found["ok"], found["seeds"], found["violations"]) == (True, 1, [])
    assert found["decisions"] >= 1


def test_the_names_of_all_defences_are_listed_one_a_line() -> None:
    ran = p2pd("sim", "--break", "list")
    assert (ran.code, ran.out.split()) == (0, [one.value for one in Break])


def test_a_defence_that_does_not_exist_is_a_usage_error() -> None:
    ran = p2pd("sim", "--break", "everything")
    assert ran.code == 2
    assert "--break list" in ran.err


def test_the_help_says_what_each_fault_and_each_defence_is() -> None:
    out = p2pd("sim", "--help").out
    for name in [one.value for one in Break] + [one.value for one in FaultSet]:
        assert re.search(rf"^  {name} +\w", out, re.MULTILINE), name
