"""Runs that are extended, and runs that end by a target: with liars about both, and with checkers that see it."""

from dataclasses import replace

import pytest

from p2pd.core.decision import Decision, Outcome, PlanState
from p2pd.core.governance import Ends, SignedGovernance
from p2pd.core.ids import peer_id
from p2pd.core.messages import ChoiceKind, Report
from p2pd.sim.charter import Charter
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import FleetResult, run_fleet
from p2pd.sim.liars import Lie
from p2pd.sim.scripted import END_METRIC
from p2pd.sim.shape import FleetShape, RunEnds
from p2pd.wire.envelope import seal
from tests.core.builders import (
    VALIDATORS,
    choices,
    extension,
    follow,
    running,
    setting_of,
)

FOUR = FleetShape(validators=4, quorum=3, windows=6, faults=FaultSet.NONE)


def sound(shape: FleetShape, seed: int = 5) -> FleetResult:
    result = run_fleet(seed, shape)
    assert result.checkers.violations == []
    return result


@pytest.mark.parametrize("liar", [None, Lie.SUPPRESS])
def test_an_extended_run_goes_on_to_its_later_end(liar: Lie | None) -> None:
    liars = () if liar is None else (("validator1", liar),)
    last = sound(replace(FOUR, ends=RunEnds.EXTENDED, liars=liars)).last
    assert last.state.progress.heads == 6
    assert last.state.governed.ends == Ends(6, 0)
    assert last.state.governed.log.number == 1


@pytest.mark.parametrize("liar", [None, Lie.CLAIM, Lie.DENY])
def test_a_run_with_a_target_ends_with_the_first_head_that_reaches_it(liar: Lie | None) -> None:
    liars = () if liar is None else (("validator1", liar),)
    result = sound(replace(FOUR, ends=RunEnds.TARGET, liars=liars))
    assert result.last.header.outcome is Outcome.FINISHED
    chain, measured = result.checkers.chain, result.checkers.charter.metrics
    assert min(measured[result.last.head].values()) >= END_METRIC
    heads = [one.head for one in chain.values() if one.header.outcome is Outcome.PROMOTED]
    before = heads[-2]
    assert max(measured[before].values()) < END_METRIC
    assert result.last.state.plan.state is PlanState.FINISHED


# The checkers see it


SETTING = setting_of(end_heads=3, target=700_000, target_band=2_000)
FIRST = running(2, 0, SETTING)


class Look:
    def __init__(self, *measured: int) -> None:
        self.found: list[str] = []
        names = {peer_id(one.key): f"validator{n}" for n, one in enumerate(VALIDATORS)}
        self.charter = Charter(lambda _, __, what: self.found.append(what), SETTING, names)
        for signer, metric in zip(VALIDATORS, measured, strict=False):
            content = Report(FIRST.head, metric, 0, 1)
            self.charter.on_reported(seal(signer, "report", SETTING.scope(1), content))

    def at(self, previous: Decision, decision: Decision) -> list[str]:
        self.charter.on_decision(previous, decision)
        return self.found


def next_of(previous: Decision, *records: SignedGovernance) -> Decision:
    return follow(previous, choices(previous, governance=records), SETTING)


def test_an_end_that_nobody_measured_is_seen() -> None:
    over = follow(FIRST, choices(FIRST, kind=ChoiceKind.REACHED), SETTING)
    assert Look(*[600_000] * 4).at(FIRST, over) == ["the run ends with a metric of 600000"]
    assert Look(*[600_000] * 3, 699_000).at(FIRST, over) == []


def test_a_run_that_goes_on_from_a_head_beyond_the_target_is_seen() -> None:
    look, previous = Look(*[800_000] * 4), FIRST
    for _ in range(5):
        decision = next_of(previous)
        look.at(previous, decision)
        previous = replace(decision, state=replace(decision.state, plan=FIRST.state.plan))
    assert look.found == ["5 decisions go on from a head that reaches the target"]


def test_a_record_that_is_not_the_authoritys_or_out_of_order_is_seen() -> None:
    record = extension(setting=SETTING)
    assert Look().at(FIRST, next_of(FIRST, record)) == []
    forged = next_of(FIRST, SignedGovernance(record.record, ()))
    assert Look().at(FIRST, forged) == ["governance record 1 is not the authority's"]
    late = next_of(FIRST, extension(setting=SETTING, number=3))
    assert Look().at(FIRST, late) == ["governance record 3 was taken after 0"]


def test_a_record_that_all_hold_and_no_decision_takes_is_seen() -> None:
    look, record, previous = Look(), extension(setting=SETTING), FIRST
    for signer in VALIDATORS:
        look.charter.on_held(peer_id(signer.key), record, 1)
    for _ in range(11):
        decision = next_of(previous)
        look.at(previous, decision)
        previous = decision
    assert look.found == ["governance record 1 has waited for 10 decisions"]


def test_ends_that_no_record_gives_are_seen() -> None:
    decision = next_of(FIRST)
    governed = replace(decision.state.governed, ends=Ends(9, 0, 700_000))
    altered = replace(decision, state=replace(decision.state, governed=governed))
    assert Look().at(FIRST, altered) == ["it ends after 9 heads, not 3"]
