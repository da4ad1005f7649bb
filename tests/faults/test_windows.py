"""Reported faults of windows and leases: deaths, stragglers, fast and slow members, a quorum lost and regained."""

from dataclasses import replace
from statistics import median

import pytest
import trio

from p2pd.core.decision import Decision, Outcome
from p2pd.core.ids import PeerId
from p2pd.core.work import FULL, Verdict
from tests.faults.scene import Scene, calm, cohort, play, promoted

TRAINERS = ("trainer1", "trainer2", "trainer3")
VALIDATORS = ("validator1", "validator2", "validator3")


def test_a_window_whose_trainers_all_die_is_recorded_as_empty_and_newcomers_go_on() -> None:
    empty: list[int] = []

    async def script(scene: Scene) -> None:
        scene.start(*VALIDATORS, "reducer1", "viewer1", *TRAINERS)
        await scene.promotes(2)
        await trio.sleep(0.3)  # into the window: the fastest trainer takes half a second
        empty.append(scene.tip.height + 1)
        head = scene.tip.head
        scene.kill(*TRAINERS)
        await trio.sleep(60)
        closed = scene.chain[empty[0]]
        assert closed.header.outcome is Outcome.EMPTY
        assert closed.head == head
        assert len(scene.chain) <= empty[0] + 2, "idle heights are decided though nobody is there"
        scene.start("trainer4", "trainer5", "trainer6")
        await scene.promotes(scene.tip.state.progress.heads + 1, limit_s=20)

    scene = play(script, calm(trainers=6, windows=50))
    newcomers = {scene.peer(f"trainer{n}") for n in (4, 5, 6)}
    assert {c.update.signer for c in cohort(promoted(scene.chain)[-1])} <= newcomers


def test_trainers_that_came_and_died_take_no_place_from_one_that_lives() -> None:
    async def script(scene: Scene) -> None:
        scene.start(*VALIDATORS, "reducer1", "viewer1")
        for n in range(1, 6):
            scene.start(f"trainer{n}")
            await trio.sleep(4)
            scene.kill(f"trainer{n}")
        started = scene.tip.height
        scene.start("trainer6")
        peer = scene.peer("trainer6")
        await scene.until("a lease", lambda: scene.tip.state.plan.lease_of(peer) is not None)
        assert scene.tip.height <= started + 3
        await scene.decides(3)
        rosters = [[lease.peer for lease in d.state.plan.roster] for d in scene.chain[-2:]]
        assert rosters == [[peer], [peer]], "the dead are still dealt leases"

    play(script, calm(trainers=6, windows=50))


@pytest.mark.parametrize("lookahead", [0, 1])
def test_of_six_trainers_for_four_places_each_trains_within_three_windows(lookahead: int) -> None:
    trainers = [f"trainer{n}" for n in range(1, 7)]

    async def script(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        everybody = {scene.peer(name) for name in trainers}

        def at_work(decision: Decision) -> set[PeerId]:
            state = decision.state
            return {lease.peer for lease in state.plan.roster} | {w.peer for w in state.standby}

        await scene.until("all are here", lambda: at_work(scene.tip) == everybody)
        first = scene.tip.height
        await scene.decides(12)
        for height in range(first, first + 10):
            plans = [decision.state.plan for decision in scene.chain[height : height + 3]]
            assert max(len(plan.roster) for plan in plans) == 4
            assert {lease.peer for plan in plans for lease in plan.roster} == everybody

    play(script, replace(calm(trainers=6), max_roster=4, lookahead=lookahead))


def test_one_slow_trainer_neither_holds_up_the_others_nor_is_blamed() -> None:
    fast = {f"trainer{n}": 3.0 for n in range(1, 5)}
    lengths: dict[int, list[float]] = {}

    def run(trainers: int) -> Scene:
        async def script(scene: Scene) -> None:
            scene.start(*scene.fleet.shape.names())
            times = lengths.setdefault(trainers, [])
            await scene.promotes(2)
            while len(times) < 20:
                start_s = trio.current_time()
                await scene.decides(1)
                times.append(trio.current_time() - start_s)

        return play(script, calm(trainers=trainers), paces={**fast, "trainer5": 30.0})

    run(4)
    scene = run(5)
    assert median(lengths[5]) < 1.5 * median(lengths[4])
    rows = {row.peer: row for row in scene.tip.state.standing}
    slow = rows.pop(scene.peer("trainer5"), None)
    assert slow is None or (slow.score, slow.rejected, slow.quarantined_until) == (FULL, 0, 0)
    assert all(row.delivered > 15 for row in rows.values())


def test_members_of_any_pace_meet_in_windows_whose_inputs_are_fixed() -> None:
    async def script(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        await scene.promotes(60, limit_s=1500)

    scene = play(script, calm(), paces={"trainer1": 0.2, "trainer2": 0.2, "trainer3": 5.0})
    for decision in promoted(scene.chain):
        accepted = [c for c in cohort(decision) if c.verdict is Verdict.ACCEPTED]
        assert accepted
        assert len({c.update.id for c in accepted}) == len(accepted)
    assert {row.quarantined_until for row in scene.tip.state.standing} == {0}


def test_a_quorum_that_was_lost_and_regained_certifies_again_by_itself() -> None:
    away = ("validator4", "validator5")

    async def script(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        await scene.promotes(2)
        for turn in range(10):
            await trio.sleep(0.37 * turn)  # in another phase of the height each time
            scene.kill(*away, silent=turn % 2 == 0)
            await trio.sleep(40)
            stuck = scene.tip.height
            await trio.sleep(20)
            assert scene.tip.height == stuck, "four of five are needed"
            scene.start(*away)
            await scene.decides(2, limit_s=45)

    play(script, calm(validators=5, quorum=4))


def test_i07_the_leases_survive_a_restart_of_all_validators() -> None:
    async def script(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        await scene.promotes(3)
        for turn in range(3):
            await trio.sleep(0.9 * turn)
            heads, epoch = scene.tip.state.progress.heads, scene.tip.state.progress.epoch
            scene.kill(*VALIDATORS)
            await trio.sleep(3)
            scene.start(*VALIDATORS)
            await scene.promotes(heads + 4)
            assert scene.tip.state.progress.epoch <= epoch + 1
        await scene.until("the epoch is over", lambda: scene.tip.state.progress.epoch > epoch)

    play(script, calm())  # the checkers count each microshard, over all epochs
