"""Whole fleets, in virtual time: some seeds with all faults, with liars, and with other sets of validators."""

import pytest

from p2pd.core import derive
from p2pd.core.decision import Decision, Outcome, Standing
from p2pd.core.encoding import decode
from p2pd.core.ids import ArtifactId
from p2pd.core.messages import Choices, Update
from p2pd.core.reconcile import RECONCILE
from p2pd.core.work import FULL, Merged, OuterRule, RebuildJob, Verdict
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import FleetResult, run_fleet
from p2pd.sim.liars import Lie
from p2pd.sim.scripted import ScriptedMath
from p2pd.sim.shape import FleetShape, Heads


def rows(result: FleetResult) -> dict[str, Standing]:
    names = {peer: name for name, peer in result.peers.items()}
    return {names[row.peer]: row for row in result.last.state.standing}


@pytest.mark.parametrize(
    ("seed", "validators", "quorum"), [(0, 1, 1), (0, 3, 2), (1, 3, 2), (0, 4, 3), (0, 7, 5)]
)
def test_i02_a_fleet_comes_to_its_end_whatever_befalls_it(
    seed: int, validators: int, quorum: int
) -> None:
    result = run_fleet(seed, FleetShape(validators=validators, quorum=quorum, windows=3))
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 3


@pytest.mark.parametrize("seed", range(2))
def test_i04_the_outer_state_is_certified_with_each_head_and_survives_all_faults(seed: int) -> None:
    nesterov = OuterRule("nesterov", 500_000, 500_000)
    result = run_fleet(seed, FleetShape(windows=4, outer=nesterov))
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 4
    chain = result.checkers.chain
    states = [chain[height].header.outer for height in sorted(chain)]
    promoted = [chain[h].header.outcome is Outcome.PROMOTED for h in sorted(chain)]
    assert states[0] is None
    for before, after, moved in zip(states, states[1:], promoted[1:], strict=False):
        assert (after != before) == moved  # the state of a head that was not promoted is not kept


@pytest.mark.parametrize(("seed", "faults"), [(0, FaultSet.NONE), (2, FaultSet.ALL)])
def test_i04_trainers_make_heads_of_their_steps_and_all_nodes_have_the_same(
    monkeypatch: pytest.MonkeyPatch, seed: int, faults: FaultSet
) -> None:
    made: list[ArtifactId] = []
    rebuild = ScriptedMath.rebuild

    async def counted(math: ScriptedMath, job: RebuildJob) -> None:
        await rebuild(math, job)
        made.append(job.head)

    monkeypatch.setattr(ScriptedMath, "rebuild", counted)
    result = run_fleet(seed, FleetShape(windows=4, heads=Heads.IN_STEPS, faults=faults))
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 4
    chain = [result.checkers.chain[height] for height in sorted(result.checkers.chain)]
    promoted = [one for one in chain[1:] if one.header.outcome is Outcome.PROMOTED]
    for one in promoted:
        assert one.step is not None
        assert one.step.base == chain[one.height - 1].head
        assert one.header.outer is not None  # what the step did not say
    assert set(made) <= {one.head for one in promoted}
    if faults is FaultSet.NONE:  # every trainer each head but the last, after which nobody trains
        assert len(made) >= 3 * 3


LONELY = FleetShape(
    windows=12,
    validators=1,
    quorum=1,
    weights=(1,),
    trainers=1,
    reducers=0,
    only=(),
    outer=OuterRule("nesterov", 700_000, 900_000),
)


def test_a_velocity_that_overshoots_goes_with_the_head_that_the_canary_blocks() -> None:
    result = run_fleet(1, LONELY)
    outcomes = [one.header.outcome for one in result.checkers.chain.values()]
    assert Outcome.BLOCKED in outcomes
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 12


def test_liveness_decisions_that_never_move_the_head_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kept(previous: Decision | None, outcome: Outcome, merged: Merged | None) -> object:
        if outcome is Outcome.PROMOTED and merged is not None:
            return merged.outer
        return previous.header.outer if previous else None

    monkeypatch.setattr(derive, "_outer_after", kept)
    result = run_fleet(1, LONELY)
    assert [one.invariant for one in result.checkers.violations] == ["liveness"]
    assert "no head promoted in 40 decisions" in result.checkers.violations[0].what


def decided(result: FleetResult) -> list[tuple[Decision, Update]]:
    """Accepted updates, each with the decision before the one that counted it."""
    chain = result.checkers.chain
    return [
        (chain[height - 1], candidate.update.content)
        for height in chain
        if height - 1 in chain and chain[height].choices
        for candidate in decode(Choices, chain[height].choices).cohort
        if candidate.verdict is Verdict.ACCEPTED
    ]


@pytest.mark.parametrize("reconcile", RECONCILE)
def test_i07_with_lookahead_no_microshard_counts_twice_whatever_befalls_it(reconcile: str) -> None:
    """The checkers look at every decision: at most once per epoch, and none forgotten."""
    shape = FleetShape(windows=5, trainers=4, lookahead=1, reconcile=reconcile)
    result = run_fleet(0, shape)
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 5
    stale = late = 0
    for previous, update in decided(result):
        stale += update.base != previous.state.plan.base
        late += update.plan != previous.id
    assert stale > 3  # trained while the decision before was being made
    assert late < stale


@pytest.mark.parametrize("lie", [Lie.REPLAY, Lie.TWICE, Lie.GREED])
def test_i07_with_lookahead_liars_count_no_more_than_without(lie: Lie) -> None:
    shape = FleetShape(windows=4, lookahead=1, liars=(("trainer1", lie),), faults=FaultSet.NONE)
    assert run_fleet(0, shape).checkers.violations == []


@pytest.mark.parametrize("faults", [one for one in FaultSet if one is not FaultSet.ALL])
def test_each_set_of_faults_is_survived(faults: FaultSet) -> None:
    result = run_fleet(0, FleetShape(windows=2, faults=faults))
    assert result.checkers.violations == []


def lying(name: str, lie: Lie, seed: int, faults: FaultSet = FaultSet.NONE) -> FleetResult:
    result = run_fleet(seed, FleetShape(windows=8, liars=((name, lie),), faults=faults))
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 8
    for other, row in rows(result).items():
        if other != name:
            assert (row.score, row.rejected, row.wrong_merges) == (FULL, 0, 0)
            assert row.quarantined_until == 0
    return result


@pytest.mark.parametrize(("seed", "lie"), [(0, Lie.GARBAGE), (1, Lie.GREED)])
def test_i11_a_trainer_that_harms_again_and_again_is_quarantined(seed: int, lie: Lie) -> None:
    result = lying("trainer1", lie, seed)
    row = rows(result)["trainer1"]
    assert (row.delivered, row.rejected) == (0, 3)
    assert row.score == FULL // 8
    assert row.quarantined_until > result.last.height
    assert result.last.state.plan.lease_of(row.peer) is None


def test_i06_a_reducer_with_wrong_merges_changes_nothing_but_its_standing() -> None:
    result = lying("reducer1", Lie.WRONG_MERGE, 0)
    row = rows(result)["reducer1"]
    assert row.wrong_merges >= 3
    assert row.quarantined_until > 0


@pytest.mark.parametrize(("seed", "lie"), [(0, Lie.TWICE), (1, Lie.REPLAY)])
def test_i07_a_second_or_an_old_update_counts_once_and_holds_up_nobody(seed: int, lie: Lie) -> None:
    row = rows(lying("trainer1", lie, seed))["trainer1"]
    assert row.delivered + row.missed == 8


@pytest.mark.parametrize("lie", [Lie.GARBAGE, Lie.TWICE])
def test_liars_among_faults_leave_honest_nodes_untouched(lie: Lie) -> None:
    lying("trainer1", lie, 3, FaultSet.ALL)
