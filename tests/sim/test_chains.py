"""Two revisions on one fleet: both live, and neither takes what belongs to the other."""

import pytest

from p2pd.core.encoding import decode
from p2pd.core.ids import PeerId, RevisionId
from p2pd.core.messages import Choices
from p2pd.sim.checkers import Checkers
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import FleetResult, run_fleet
from p2pd.sim.liars import Lie
from p2pd.sim.shape import FleetShape


def counted(checkers: Checkers) -> set[tuple[RevisionId, PeerId]]:
    """For which revision, and by whom, the updates were that a revision's decisions looked at."""
    return {
        (one.update.scope.revision, one.update.signer)
        for decision in checkers.chain.values()
        if decision.choices
        for one in decode(Choices, decision.choices).cohort
    }


def heads(checkers: Checkers) -> int:
    return checkers.chain[max(checkers.chain)].state.progress.heads


def apart(result: FleetResult) -> None:
    (other,) = result.others
    assert result.checkers.violations == []
    first, second = counted(result.checkers), counted(other)
    assert {revision for revision, _ in first} == {result.checkers.setting.revision.id}
    assert {revision for revision, _ in second} == {other.setting.revision.id}
    assert {peer for _, peer in second} == {result.peers["trainer2"]}
    assert not {peer for _, peer in first} & {peer for _, peer in second}


@pytest.mark.parametrize("faults", [FaultSet.NONE, FaultSet.ALL])
def test_i02_two_revisions_come_to_their_ends_each_on_its_own(faults: FaultSet) -> None:
    result = run_fleet(2, FleetShape(windows=4, revisions=2, faults=faults))
    apart(result)
    assert (heads(result.checkers), heads(result.others[0])) == (4, 2)
    assert result.decisions > 6


def test_i03_updates_of_another_revision_in_a_proposal_change_nothing() -> None:
    shape = FleetShape(
        validators=4,
        quorum=3,
        windows=4,
        revisions=2,
        faults=FaultSet.NONE,
        liars=(("validator2", Lie.STRAY),),
    )
    apart(run_fleet(1, shape))
