from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.ids import ArtifactId, digest
from p2pd.core.messages import Beacon, Leave, Release, Service, Update
from p2pd.core.signed import Signed
from p2pd.core.trainer import Abandon, FetchBase, Paused, Resumed, Train, Trained, Trainer
from p2pd.core.validator.events import Adopted, Fetched, Publish
from p2pd.core.work import TrainResult
from p2pd.io.keys import Ed25519Signer
from p2pd.wire.envelope import seal
from tests.core.builders import (
    GENESIS,
    SETTING,
    TRAINERS,
    all_present,
    choices,
    follow,
    running,
    setting_of,
    update,
)

ME = TRAINERS[0]
FIRST = running(trainers=2)
SECOND = follow(FIRST, choices(FIRST, [update(FIRST, ME)], all_present(FIRST)))
WITHOUT_ME = follow(FIRST, choices(FIRST, [update(FIRST, ME)], all_present(FIRST)[1:]))
RESULT = TrainResult(ArtifactId(digest("artifact", b"mine")), 100, 20, 2, 0, 1.0)


def trainer(previous: Decision = FIRST, who: Ed25519Signer = ME) -> Trainer:
    def sign(kind: str, scope: Any, content: Any) -> Signed[Any]:
        return seal(who, kind, scope, content)

    return Trainer(SETTING, who.peer, sign, previous)


def said(effects: list[Any]) -> list[object]:
    return [one.signed.content for one in effects if isinstance(one, Publish)]


def at_work() -> tuple[Trainer, Train]:
    """One that has fetched the base and trains."""
    machine = trainer()
    machine.resume(())
    (train,) = machine.handle(Fetched(FIRST.head, here=True), 1.0)
    assert isinstance(train, Train)
    return machine, train


def seed_of(machine: Trainer) -> int:
    machine.resume(())
    (train,) = machine.handle(Fetched(FIRST.head, here=True), 1.0)
    assert isinstance(train, Train)
    return train.job.seed


def test_each_trainer_of_a_plan_draws_for_itself_and_the_same_after_a_restart() -> None:
    mine, other = seed_of(trainer()), seed_of(trainer(who=TRAINERS[1]))
    assert mine != other
    assert seed_of(trainer()) == mine
    assert 0 <= mine < 2**64


def test_it_shows_presence_and_fetches_the_base_of_its_lease() -> None:
    effects = trainer().resume(())
    assert said(effects) == [Beacon(Service.TRAIN)]
    assert effects[1:] == [FetchBase(FIRST.head)]


def test_without_a_lease_it_only_shows_presence() -> None:
    effects = trainer(GENESIS).resume(())
    assert said(effects) == [Beacon(Service.TRAIN)]
    assert len(effects) == 1


def test_i07_it_trains_its_lease_from_the_base_at_the_certified_progress() -> None:
    _, train = at_work()
    lease = FIRST.state.plan.lease_of(ME.peer)
    assert lease is not None
    assert train.job.shards == lease.shards
    assert (train.job.height, train.job.base) == (2, FIRST.head)
    assert train.job.progress == FIRST.state.progress


def test_what_it_trained_is_published_for_the_plan_that_dealt_the_lease() -> None:
    machine, train = at_work()
    effects = machine.handle(Trained(train.job, RESULT, ""), 5.0)
    assert RESULT.seconds == 1.0
    roughly_ms = 1024  # to three binary digits
    wanted = Update(FIRST.id, FIRST.head, RESULT.artifact, 100, 20, 2, took_ms=roughly_ms)
    assert said(effects) == [wanted]


def test_a_workload_that_fails_gives_the_lease_back_with_the_reason() -> None:
    machine, train = at_work()
    assert said(machine.handle(Trained(train.job, None, "x" * 900), 5.0)) == [
        Release(FIRST.id, "x" * 500)
    ]


def test_a_base_that_cannot_be_had_gives_the_lease_back() -> None:
    machine = trainer()
    machine.resume(())
    (content,) = said(machine.handle(Fetched(FIRST.head, here=False), 1.0))
    assert isinstance(content, Release)
    assert machine.handle(Fetched(FIRST.head, here=True), 2.0) == []


def test_i10_what_was_published_before_a_restart_is_not_trained_again() -> None:
    before: Any = update(FIRST, ME)
    machine = trainer()
    effects = machine.resume((before,))
    assert said(effects) == [Beacon(Service.TRAIN)]
    assert len(effects) == 1
    assert machine.handle(Fetched(FIRST.head, here=True), 1.0) == []


def test_a_decision_ends_the_window_and_abandons_the_work() -> None:
    machine, train = at_work()
    effects = machine.handle(Adopted(SECOND), 9.0)
    assert effects[0] == Abandon()
    assert effects[-1] == FetchBase(SECOND.head)
    assert machine.handle(Trained(train.job, RESULT, ""), 9.5) == []


def test_without_a_lease_in_the_next_window_it_waits() -> None:
    machine, _ = at_work()
    effects = machine.handle(Adopted(WITHOUT_ME), 9.0)
    assert effects[0] == Abandon()
    assert said(effects) == [Beacon(Service.TRAIN)]
    assert machine.lease is None
    assert machine.next_deadline_s() is None


def test_one_lease_is_trained_once() -> None:
    machine, train = at_work()
    assert machine.handle(Fetched(FIRST.head, here=True), 2.0) == []
    assert said(machine.handle(Trained(train.job, RESULT, ""), 5.0))
    assert machine.handle(Trained(train.job, RESULT, ""), 6.0) == []


def test_it_leaves_the_open_height() -> None:
    machine, _ = at_work()
    machine.handle(Adopted(SECOND), 2.0)
    (effect,) = machine.leave()
    assert isinstance(effect, Publish)
    assert (effect.signed.kind, effect.signed.scope) == ("leave", SETTING.scope(SECOND.height + 1))
    assert effect.signed.content == Leave()


def test_it_leaves_a_finished_revision_without_a_word() -> None:
    setting = setting_of(end_heads=1)
    dealt = running(1, 0, setting)
    ended = follow(dealt, choices(dealt, [update(dealt, ME, setting)]), setting)
    machine = trainer(ended)
    machine.setting = setting
    assert machine.resume(()) == []
    assert machine.leave() == []


def begun(machine: Trainer, now_s: float) -> Train:
    (train,) = machine.handle(Fetched(machine.previous.head, here=True), now_s)
    assert isinstance(train, Train)
    return train


def failing(times: int) -> tuple[Trainer, float]:
    """One whose workload has failed so often in a row, each time in a window of its own; and the time."""
    machine, decision, now_s = trainer(), FIRST, 0.0
    machine.resume(())
    for turn in range(times):
        now_s = max(now_s + 1.0, machine.rest.until_s)
        machine.tick(now_s)
        if turn:
            decision = follow(decision, choices(decision, [], all_present(decision)))
            machine.handle(Adopted(decision), now_s)
        machine.handle(Trained(begun(machine, now_s).job, None, "no luck"), now_s)
    return machine, now_s


def test_a_workload_that_fails_again_and_again_rests_longer_and_longer() -> None:
    rests = []
    for times in range(1, 12):
        machine, now_s = failing(times)
        assert machine.resting == (times > 1)
        rests.append(max(0.0, machine.rest.until_s - now_s))
    assert rests == [0, 5, 10, 20, 40, 80, 160, 300, 300, 300, 300]


def test_who_rests_shows_no_presence_and_gives_back_what_it_is_dealt_at_once() -> None:
    machine, now_s = failing(2)
    dealt = follow(machine.previous, choices(machine.previous, [], all_present(machine.previous)))
    effects = machine.handle(Adopted(dealt), now_s + 1)
    assert said(effects) == [Release(dealt.id, "resting: it failed 2 times in a row")]
    assert machine.next_deadline_s() == machine.rest.until_s
    assert machine.tick(machine.rest.until_s - 0.1) == []
    assert said(machine.tick(machine.rest.until_s)) == [Beacon(Service.TRAIN)]
    assert machine.next_deadline_s() is None


def test_who_has_rested_shows_itself_whatever_it_hears_first() -> None:
    machine, _ = failing(2)
    effects = machine.handle(Fetched(FIRST.head, here=True), machine.rest.until_s + 1)
    assert said(effects) == [Beacon(Service.TRAIN)]


def test_one_lease_that_goes_well_is_the_end_of_a_row_of_failures() -> None:
    machine, now_s = failing(3)
    now_s = machine.rest.until_s
    machine.tick(now_s)
    decision = follow(
        machine.previous, choices(machine.previous, [], all_present(machine.previous))
    )
    machine.handle(Adopted(decision), now_s)
    machine.handle(Trained(begun(machine, now_s).job, RESULT, ""), now_s)
    assert machine.rest.failures == 0
    assert not machine.resting


def test_who_is_paused_gives_up_its_lease_and_its_presence_at_once() -> None:
    machine, train = at_work()
    paused = machine.handle(Paused("rest"), 2.0)
    assert paused[0] == Abandon()
    assert said(paused) == [Leave()]
    assert machine.handle(Paused("rest"), 2.0) == []
    assert machine.handle(Trained(train.job, RESULT, ""), 3.0) == []
    assert machine.handle(Adopted(SECOND), 4.0) == []
    assert machine.leave() == []


def test_who_is_resumed_shows_itself_and_takes_up_the_lease_that_it_has() -> None:
    machine, _ = at_work()
    machine.handle(Paused("rest"), 2.0)
    machine.handle(Adopted(SECOND), 4.0)
    effects = machine.handle(Resumed(), 5.0)
    assert said(effects) == [Beacon(Service.TRAIN)]
    assert effects[1:] == [FetchBase(SECOND.head)]
    assert machine.handle(Resumed(), 5.0) == []


def test_an_update_that_was_published_counts_though_its_author_is_paused() -> None:
    machine, train = at_work()
    machine.handle(Trained(train.job, RESULT, ""), 3.0)
    assert said(machine.handle(Paused("rest"), 4.0)) == [Leave()]
    resumed = machine.handle(Resumed(), 5.0)
    assert said(resumed) == [Beacon(Service.TRAIN)]  # and nothing is trained or said twice
    assert len(resumed) == 1


def test_who_starts_paused_says_nothing() -> None:
    machine = trainer()
    machine.paused = "rest"
    assert machine.resume(()) == []
