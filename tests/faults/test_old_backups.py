"""A validator that comes back with an old data directory, or whose key lives twice."""

from p2pd.core.signed import Signed
from p2pd.core.votes import Step, Vote
from p2pd.sim.faults import Restore, Twin
from tests.faults.scene import Scene, calm, play

VALIDATORS = ("validator1", "validator2", "validator3")


def until_it_proposes(scene: Scene, name: str) -> None:
    """Kills a node, and gives it its old data directory, as soon as it has proposed and prevoted.

    Before all others, or it may have precommitted in the same breath, and the height is decided without it.
    """
    lane = scene.fleet.lives[name].lane
    assert lane is not None
    me, members = lane.key, lane.setting.members(())

    def voted() -> None:
        proposer = members.proposer(lane.pool.height, 0)
        voters = {one.author for one in lane.pool.held.values() if is_prevote(one)}
        if proposer.key == me and voters == {me}:
            scene.kill("validator3")  # so that the height stays open
            scene.fleet.world.restore(Restore(0.0, 0.0, name, 0.0, calm=True))

    lane.voted = voted


def is_prevote(signed: Signed[object]) -> bool:
    return isinstance(signed.content, Vote) and signed.content.step is Step.PREVOTE


def test_i10_a_validator_with_an_old_backup_finds_its_votes_and_stays_silent_in_that_height() -> (
    None
):
    async def script(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        await scene.decides(3)
        scene.fleet.world.back_up("validator1")
        await scene.decides(3)
        life = scene.fleet.lives["validator1"]
        until_it_proposes(scene, "validator1")
        await scene.until("validator1 proposes", lambda: life.scope is None)
        height = scene.tip.height + 1
        scene.start("validator1")

        def muted() -> bool:
            assert life.lane is not None
            voting = life.lane.role.view().voting
            return life.lane.pool.height == height and voting is not None and voting.muted

        await scene.until("validator1 has found its votes", muted, 20.0)
        lives = life.lives
        scene.start("validator3")
        await scene.decides(4)
        await scene.until("validator1 votes again", lambda: not muted())
        assert life.lives == lives  # it was no reason to end

    play(script, calm())


def test_i10_a_twin_of_a_validator_is_found_and_the_fleet_goes_on() -> None:
    async def script(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        await scene.decides(3)
        scene.fleet.world.start_twin(Twin(0.0, 0.0, "validator1", empty=False))
        await scene.decides(6, 300.0)
        scene.fleet.world.end_twin("validator1")
        await scene.decides(6, 300.0)

    play(script, calm(validators=4, quorum=3))
