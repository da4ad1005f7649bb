"""A trainer whose data come with its leases."""

from dataclasses import replace
from typing import Any

from p2pd.core.derive import Setting
from p2pd.core.ids import ArtifactId, digest
from p2pd.core.lease_data import BringData, DataBrought
from p2pd.core.messages import Release
from p2pd.core.revision import DataSpec
from p2pd.core.signed import Signed
from p2pd.core.trainer import Abandon, FetchBase, Train, Trained, Trainer
from p2pd.core.validator.events import Adopted, Fetched, Publish
from p2pd.core.work import TrainResult
from p2pd.wire.envelope import seal
from tests.core.builders import TRAINERS, all_present, choices, follow, running, setting_of
from tests.core.builders import update as update_of

ME = TRAINERS[0]
RESULT = TrainResult(ArtifactId(digest("artifact", b"mine")), 100, 20, 2, 0, 1.0)


def sharded(**schedule: Any) -> Setting:
    setting = setting_of(**schedule)
    data = setting.revision.data
    named = DataSpec("sharded", data.samples, data.shard_samples, "ab" * 32)
    return replace(setting, revision=replace(setting.revision, data=named))


SHARDED, AHEAD = sharded(), sharded(lookahead=1)
FIRST, FIRST_AHEAD = running(setting=SHARDED), running(setting=AHEAD)


class Desk:
    def __init__(self, setting: Setting = SHARDED) -> None:
        def sign(kind: str, scope: Any, content: Any) -> Signed[Any]:
            return seal(ME, kind, scope, content)

        self.first = FIRST if setting is SHARDED else FIRST_AHEAD
        self.machine = Trainer(setting, ME.peer, sign, self.first)
        self.effects = self.take(self.machine.resume(()))

    @staticmethod
    def take(effects: list[Any]) -> list[Any]:
        return [one for one in effects if not isinstance(one, Publish)]

    def handle(self, event: Any) -> list[Any]:
        effects = self.machine.handle(event, 1.0)
        self.said = [one.signed.content for one in effects if isinstance(one, Publish)]
        return self.take(effects)

    @property
    def lease(self) -> tuple[int, ...]:
        lease = self.first.state.plan.lease_of(ME.peer)
        assert lease is not None
        return lease.shards

    @property
    def reserved(self) -> tuple[int, ...]:
        lease = self.first.state.plan.lease_of(ME.peer)
        assert lease is not None
        return lease.reserved


def test_the_data_of_a_lease_are_brought_beside_its_base() -> None:
    desk = Desk()
    assert desk.effects == [FetchBase(FIRST.head), BringData(2, desk.lease)]


def test_it_trains_once_both_are_here_in_either_order() -> None:
    base, data = Fetched(FIRST.head, here=True), DataBrought(BringData(2, Desk().lease), "")
    for one, other in ((base, data), (data, base)):
        desk = Desk()
        assert desk.handle(one) == []
        (train,) = desk.handle(other)
        assert isinstance(train, Train)
        assert train.job.shards == desk.lease
        assert desk.handle(other) == []  # once


def test_data_that_do_not_come_give_the_lease_back_with_the_reason() -> None:
    for here in (True, False):
        desk = Desk()
        if here:
            desk.handle(Fetched(FIRST.head, here=True))
        assert desk.handle(DataBrought(BringData(2, desk.lease), "nobody has it")) == []
        assert desk.said == [Release(FIRST.id, "nobody has it")]
        assert desk.handle(DataBrought(BringData(2, desk.lease), "")) == []
        assert desk.said == []


def test_a_trainer_without_data_again_and_again_rests_as_after_any_failure() -> None:
    desk = Desk()
    for _ in range(2):
        desk.machine.done = 0
        desk.machine._begin()
        desk.machine._flush()
        desk.handle(DataBrought(BringData(2, desk.lease), "nobody has it"))
    assert desk.machine.resting


def test_what_is_reserved_is_brought_once_the_lease_has_what_it_needs() -> None:
    desk = Desk(AHEAD)
    assert desk.reserved
    desk.handle(Fetched(FIRST_AHEAD.head, here=True))
    train, ahead = desk.handle(DataBrought(BringData(2, desk.lease), ""))
    assert isinstance(train, Train)
    assert ahead == BringData(3, desk.reserved)
    assert desk.handle(DataBrought(BringData(3, desk.reserved), "nobody has it")) == []
    assert desk.said == []  # it is asked for again when its turn comes
    effects = desk.handle(Trained(train.job, RESULT, ""))
    assert effects == [FetchBase(FIRST_AHEAD.head), BringData(3, desk.reserved)]


def test_a_lease_that_is_over_is_not_waited_for() -> None:
    desk = Desk()
    mine = update_of(FIRST, TRAINERS[1], SHARDED)
    second = follow(FIRST, choices(FIRST, [mine], all_present(FIRST, setting=SHARDED)[1:]), SHARDED)
    assert desk.handle(Adopted(second))[0] == Abandon()
    assert desk.handle(DataBrought(BringData(2, desk.lease), "cancelled")) == []
    assert desk.said == []


def test_where_every_node_has_the_data_nothing_is_brought() -> None:
    setting = setting_of()

    def sign(kind: str, scope: Any, content: Any) -> Signed[Any]:
        return seal(ME, kind, scope, content)

    effects = Desk.take(Trainer(setting, ME.peer, sign, running(setting=setting)).resume(()))
    assert [type(one) for one in effects] == [FetchBase]


def test_i10_what_it_takes_up_again_after_a_restart_has_its_data_brought_too() -> None:
    own: tuple[Any, ...] = (
        update_of(FIRST_AHEAD, ME, AHEAD),
        update_of(FIRST_AHEAD, TRAINERS[1], AHEAD),
    )
    presence = all_present(FIRST_AHEAD, setting=AHEAD)
    second = follow(FIRST_AHEAD, choices(FIRST_AHEAD, list(own), presence), AHEAD)
    desk = Desk(AHEAD)
    desk.machine = Trainer(AHEAD, ME.peer, desk.machine.sign, second)
    effects = desk.take(desk.machine.resume(own[:1], FIRST_AHEAD))
    assert effects[:2] == [FetchBase(FIRST_AHEAD.head), BringData(3, desk.reserved)]
    desk.handle(DataBrought(BringData(3, desk.reserved), ""))
    ahead = desk.handle(Fetched(FIRST_AHEAD.head, here=True))
    assert [one.job.height for one in ahead if isinstance(one, Train)] == [3]
