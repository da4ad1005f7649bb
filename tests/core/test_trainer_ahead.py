"""A trainer with lookahead: it goes on while the decision is made, and may be late by a window."""

from dataclasses import replace
from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.ids import ArtifactId, digest
from p2pd.core.messages import Release, Update
from p2pd.core.signed import Signed
from p2pd.core.trainer import Abandon, FetchBase, Train, Trained, Trainer
from p2pd.core.validator.events import Adopted, Fetched, Publish
from p2pd.core.work import TrainResult
from p2pd.wire.envelope import seal
from tests.core.builders import TRAINERS, all_present, choices, follow, running, setting_of, update

AHEAD = setting_of(lookahead=1)
EMA = setting_of(lookahead=1, reconcile="root_ema", own_weight=250_000)
REPLACE = setting_of(lookahead=1, reconcile="replace")
ME, OTHER = TRAINERS[:2]
FIRST = running(setting=AHEAD)


def result(name: bytes) -> TrainResult:
    return TrainResult(ArtifactId(digest("artifact", name)), 100, 20, 2, 0, 1.0)


class Desk:
    """A trainer, and what it was told to train last."""

    def __init__(self, setting: Any = AHEAD, first: Decision = FIRST) -> None:
        self.setting = setting

        def sign(kind: str, scope: Any, content: Any) -> Signed[Any]:
            return seal(ME, kind, scope, content)

        self.machine = Trainer(setting, ME.peer, sign, first)
        self.abandoned = 0
        self.said: list[Signed[Any]] = []
        self.job: Any = None
        self.take(self.machine.resume(()))

    def take(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Publish(signed=signed) if signed.kind != "beacon":
                    self.said.append(signed)
                case FetchBase(artifact=artifact):
                    self.take(self.machine.handle(Fetched(artifact, here=True), 0.0))
                case Train(job=job):
                    self.job = job
                case Abandon():
                    self.abandoned += 1

    def trained(self, name: bytes = b"x") -> None:
        self.take(self.machine.handle(Trained(self.job, result(name), ""), 0.0))

    def failed(self) -> None:
        self.take(self.machine.handle(Trained(self.job, None, "broke"), 0.0))

    def adopt(self, decision: Decision) -> None:
        self.take(self.machine.handle(Adopted(decision), 0.0))

    def updates(self) -> list[Update]:
        return [one.content for one in self.said if isinstance(one.content, Update)]


def decide(previous: Decision, *who: Any, setting: Any = AHEAD) -> Decision:
    cohort = [update(previous, one, setting) for one in who]
    return follow(
        previous, choices(previous, cohort, all_present(previous, setting=setting)), setting
    )


def test_it_goes_on_with_what_is_reserved_from_its_own_state() -> None:
    desk = Desk()
    first = desk.job
    desk.trained()
    lease = FIRST.state.plan.lease_of(ME.peer)
    assert lease is not None
    assert (desk.job.height, desk.job.shards, desk.job.base) == (3, lease.reserved, FIRST.head)
    assert desk.job.carry == (2,)
    assert desk.job.seed != first.seed
    assert desk.job.progress.steps == first.progress.steps + 2  # its own are not certified yet


def test_i07_what_it_trained_ahead_is_published_once_the_plan_deals_it() -> None:
    desk = Desk()
    desk.trained(b"first")
    desk.trained(b"ahead")
    assert len(desk.said) == 1
    second = decide(FIRST, ME, OTHER)
    desk.adopt(second)
    first, ahead = desk.updates()
    assert desk.said[1].scope == AHEAD.scope(3)
    assert (ahead.plan, ahead.base, ahead.artifact) == (
        second.id,
        FIRST.head,
        result(b"ahead").artifact,
    )
    assert first.plan == FIRST.id
    assert desk.abandoned == 0
    # And on it goes, from the new head with its own steps that are not in it.
    assert (desk.job.height, desk.job.base, desk.job.carry) == (4, second.head, (3,))


def test_with_replace_it_goes_on_from_the_new_head_alone() -> None:
    first = running(setting=REPLACE)
    desk = Desk(REPLACE, first)
    desk.trained()
    assert desk.job.carry == (2,)
    desk.trained()
    desk.adopt(decide(first, ME, OTHER, setting=REPLACE))
    assert desk.job.carry == ()


def test_with_root_ema_it_goes_on_from_itself_and_then_from_a_mean_with_the_head() -> None:
    first = running(setting=EMA)
    desk = Desk(EMA, first)
    assert (desk.job.own, desk.job.carry) == (250_000, ())
    desk.trained()
    assert (desk.job.own, desk.job.carry) == (1_000_000, ())
    desk.trained()
    desk.adopt(decide(first, ME, OTHER, setting=EMA))
    assert desk.job.height == 4
    assert (desk.job.own, desk.job.carry) == (1_000_000, ())
    desk.adopt(decide(desk.machine.previous, OTHER, setting=EMA))


def test_training_ahead_is_not_broken_off_by_the_decision() -> None:
    desk = Desk()
    desk.trained()
    ahead = desk.job
    desk.adopt(decide(FIRST, ME, OTHER))
    assert desk.abandoned == 0
    assert desk.job == ahead
    desk.trained(b"ahead")
    assert [one.plan for one in desk.updates()][1] == decide(FIRST, ME, OTHER).id


def test_the_new_head_is_fetched_while_it_trains_ahead() -> None:
    desk = Desk()
    desk.trained()
    second = decide(FIRST, ME, OTHER)
    effects = desk.machine.handle(Adopted(second), 0.0)
    assert [one for one in effects if isinstance(one, FetchBase)] == [FetchBase(second.head)]
    ahead = desk.job
    assert desk.machine.handle(Fetched(second.head, here=True), 0.0) == []
    desk.trained(b"ahead")
    assert (desk.job.base, ahead.base) == (second.head, FIRST.head)


def test_a_lease_that_is_not_done_in_time_is_finished_and_published_late() -> None:
    desk = Desk()
    slow = desk.job
    second = decide(FIRST, OTHER)
    desk.adopt(second)
    assert (desk.abandoned, desk.job) == (0, slow)
    desk.trained(b"late")
    (late,) = desk.said
    assert late.scope == AHEAD.scope(2)
    assert late.content.plan == FIRST.id
    # The next lease starts from the new head, with the late steps that it cannot contain yet.
    assert (desk.job.height, desk.job.base, desk.job.carry) == (3, second.head, (2,))


def test_after_one_more_window_it_is_too_late() -> None:
    desk = Desk()
    second = decide(FIRST, OTHER)
    desk.adopt(second)
    desk.adopt(decide(second, OTHER))
    assert desk.abandoned == 1
    assert desk.job.height == 4


def test_what_the_plan_does_not_deal_is_abandoned() -> None:
    desk = Desk()
    desk.trained()
    cohort = [update(FIRST, ME, AHEAD)]
    without_me = follow(FIRST, choices(FIRST, cohort, all_present(FIRST, setting=AHEAD)[1:]), AHEAD)
    desk.adopt(without_me)
    assert desk.abandoned == 1
    assert desk.machine.task is None


def test_i07_a_void_window_carries_nothing_on() -> None:
    desk = Desk()
    desk.trained()
    desk.trained()
    blocked = follow(
        FIRST,
        replace(choices(FIRST, [], all_present(FIRST, setting=AHEAD))),
        AHEAD,
    )
    assert blocked.state.late is None
    desk.adopt(blocked)
    assert desk.job.carry == (3,)  # what it has just published; the void update is gone


def test_a_failure_ahead_is_nobodys_business_and_tried_again_as_a_lease() -> None:
    desk = Desk()
    desk.trained()
    desk.failed()
    assert [type(one.content) for one in desk.said] == [Update]
    assert desk.machine.task is None
    desk.adopt(decide(FIRST, ME, OTHER))
    assert (desk.job.height, desk.job.carry) == (3, ())
    desk.failed()
    assert isinstance(desk.said[-1].content, Release)
    assert desk.said[-1].scope == AHEAD.scope(3)


def test_i10_after_a_restart_it_goes_on_behind_what_it_had_published() -> None:
    desk = Desk()
    desk.trained()
    ahead, own = desk.job, tuple(desk.said)
    machine = Trainer(AHEAD, ME.peer, desk.machine.sign, FIRST)
    desk.machine, desk.said = machine, []
    desk.take(machine.resume(own))
    assert desk.said == []
    assert desk.job == ahead  # the same microshards, seed, progress and steps to carry


def test_i10_after_a_restart_it_carries_what_was_late_as_well() -> None:
    desk = Desk()
    second = decide(FIRST, OTHER)
    desk.adopt(second)
    desk.trained(b"late")
    desk.trained(b"second")
    ahead, own = desk.job, tuple(desk.said)
    assert ahead.carry == (2, 3)
    machine = Trainer(AHEAD, ME.peer, desk.machine.sign, second)
    desk.machine = machine
    desk.take(machine.resume(own[::-1]))
    assert desk.job == ahead


def test_i10_after_a_restart_it_takes_up_again_what_it_went_on_with_before_the_decision() -> None:
    desk = Desk()
    desk.trained()
    ahead, own = desk.job, tuple(desk.said)
    second = decide(FIRST, ME, OTHER)
    desk.adopt(second)
    assert desk.job == ahead
    desk.machine = Trainer(AHEAD, ME.peer, desk.machine.sign, second)
    desk.said, desk.job = [], None
    desk.take(desk.machine.resume(own, FIRST))
    assert (desk.said, desk.job) == ([], ahead)
    desk.trained(b"ahead")
    (update,) = desk.updates()
    assert (update.plan, update.base) == (second.id, FIRST.head)
    # And what it has published since is not done again.
    desk.machine = Trainer(AHEAD, ME.peer, desk.machine.sign, second)
    later = desk.job
    desk.take(desk.machine.resume((*own, *desk.said), FIRST))
    assert desk.job == later


def test_i10_what_was_decided_meanwhile_is_not_carried_after_a_restart() -> None:
    desk = Desk()
    desk.trained()
    own = tuple(desk.said)
    second = decide(FIRST, ME, OTHER)
    desk.machine = Trainer(AHEAD, ME.peer, desk.machine.sign, second)
    desk.take(desk.machine.resume(own))
    assert (desk.job.height, desk.job.carry) == (3, ())
