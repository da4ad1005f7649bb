from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.derive import inputs_hash, merge_job
from p2pd.core.messages import Beacon, Leave, Reduction, Service
from p2pd.core.reducer import Reducer, with_other_head
from p2pd.core.signed import Signed
from p2pd.core.validator.events import (
    Adopted,
    Fetched,
    FetchUpdate,
    Inspect,
    Inspected,
    Merge,
    MergeDone,
    ObjectSeen,
    Publish,
)
from p2pd.core.window import LEAVE_HEARD_S
from p2pd.core.work import Inspection, Verdict
from p2pd.wire.envelope import seal
from tests.core.builders import (
    REDUCERS,
    SETTING,
    TRAINERS,
    all_present,
    beacon,
    choices,
    follow,
    leave,
    release,
    running,
    update,
)
from tests.core.validator.council import honest, merged_of

ME = REDUCERS[0]
FIRST = running(trainers=2, reducers=2)
UPDATES = [update(FIRST, TRAINERS[n]) for n in range(2)]
SECOND = follow(FIRST, choices(FIRST, UPDATES, all_present(FIRST, 2, 2)))
DEADLINE_S = SETTING.revision.schedule.deadline_ms / 1000


def reducer(previous: Decision = FIRST, **more: Any) -> Reducer:
    def sign(kind: str, scope: Any, content: Any) -> Signed[Any]:
        return seal(ME, kind, scope, content)

    return Reducer(SETTING, ME.peer, sign, previous, 0.0, **more)


def said(effects: list[Any]) -> list[Any]:
    return [one.signed.content for one in effects if isinstance(one, Publish)]


def show(machine: Reducer, *objects: Signed[Any], now_s: float = 1.0) -> list[Any]:
    """Shows objects, and answers every job honestly. All effects that came out."""
    effects: list[Any] = []
    events: list[Any] = [ObjectSeen(signed) for signed in objects]
    while events:
        more = machine.handle(events.pop(0), now_s)
        effects += more
        events += [honest(one) for one in more if not isinstance(one, Publish)]
    return effects


def test_a_drawn_reducer_merges_once_every_lease_is_delivered() -> None:
    machine = reducer()
    assert said(machine.resume(())) == [Beacon(Service.REDUCE)]
    effects = show(machine, *UPDATES)
    (merge,) = [one for one in effects if isinstance(one, Merge)]
    job = merge_job(SETTING, FIRST, choices(FIRST, UPDATES).cohort)
    assert job is not None
    assert merge == Merge(inputs_hash(job), job)
    assert said(effects) == [Reduction(FIRST.id, merge.inputs, merged_of(merge))]
    assert machine.next_deadline_s() is None


def test_one_that_was_not_drawn_only_shows_presence() -> None:
    machine = reducer(running(trainers=2))
    assert said(machine.resume(())) == [Beacon(Service.REDUCE)]
    assert show(machine, *UPDATES) == []
    assert machine.next_deadline_s() is None


def test_what_is_missing_at_the_deadline_is_left_out() -> None:
    machine = reducer()
    machine.resume(())
    show(machine, UPDATES[0])
    assert machine.next_deadline_s() == DEADLINE_S
    (merge,) = machine.tick(DEADLINE_S)
    assert isinstance(merge, Merge)
    assert [bytes(one.update) for one in merge.job.inputs] == [UPDATES[0].id]
    assert show(machine, UPDATES[1], now_s=DEADLINE_S + 1.0)[-1:] != [merge]


def test_a_window_without_updates_is_not_merged() -> None:
    machine = reducer()
    machine.resume(())
    assert show(machine, *(release(FIRST, TRAINERS[n]) for n in range(2))) == []
    assert machine.over


def test_a_rejected_update_is_left_out_and_settles_its_lease() -> None:
    machine = reducer()
    machine.resume(())
    show(machine, UPDATES[0])
    machine.handle(ObjectSeen(UPDATES[1]), 1.0)
    bad = UPDATES[1].content.artifact
    machine.handle(Fetched(bad, here=True), 1.0)
    effects = machine.handle(Inspected(bad, Inspection(bad, Verdict.LAYOUT, "")), 1.0)
    (merge,) = effects
    assert isinstance(merge, Merge)
    assert len(merge.job.inputs) == 1


def test_what_cannot_be_fetched_or_inspected_settles_its_lease() -> None:
    machine = reducer()
    machine.resume(())
    events: list[Any] = [
        Fetched(UPDATES[0].content.artifact, here=False),
        Inspected(UPDATES[1].content.artifact, None),
    ]
    for one, event in zip(UPDATES, events, strict=True):
        machine.handle(ObjectSeen(one), 1.0)
        machine.handle(event, 1.0)
    assert machine.over


def test_an_update_without_a_lease_is_not_fetched() -> None:
    machine = reducer()
    machine.resume(())
    assert show(machine, update(FIRST, TRAINERS[4])) == []


def test_a_second_update_of_one_trainer_is_not_fetched() -> None:
    machine = reducer()
    machine.resume(())
    effects = show(machine, UPDATES[0], update(FIRST, TRAINERS[0], steps=2))
    assert len([one for one in effects if isinstance(one, FetchUpdate)]) == 1
    assert len([one for one in effects if isinstance(one, Inspect)]) == 1


def test_a_merge_of_a_window_that_was_decided_meanwhile_is_not_published() -> None:
    machine = reducer()
    machine.resume(())
    effects: list[Any] = []
    for one in UPDATES:
        machine.handle(ObjectSeen(one), 1.0)
        machine.handle(Fetched(one.content.artifact, here=True), 1.0)
        artifact = one.content.artifact
        effects += machine.handle(
            Inspected(artifact, Inspection(artifact, Verdict.ACCEPTED, "")), 1.0
        )
    (merge,) = effects
    assert said(machine.handle(Adopted(SECOND), 2.0)) == [Beacon(Service.REDUCE)]
    assert machine.handle(MergeDone(merge.inputs, merged_of(merge)), 2.5) == []


def test_i10_what_was_published_before_a_restart_is_not_merged_again() -> None:
    machine = reducer()
    machine.resume(())
    content = said(show(machine, *UPDATES))[0]
    again = reducer()
    again.resume((seal(ME, "reduction", SETTING.scope(2), content),))
    assert [one for one in show(again, *UPDATES) if isinstance(one, Merge)] == []


def test_a_lying_reducer_names_another_head() -> None:
    machine = reducer(bend=with_other_head)
    machine.resume(())
    effects = show(machine, *UPDATES)
    (merge,) = [one for one in effects if isinstance(one, Merge)]
    (lie,) = said(effects)
    assert lie.inputs == merge.inputs
    assert lie.merged != merged_of(merge)
    assert lie.merged.measured == merged_of(merge).measured


def test_it_merges_what_there_is_once_the_others_have_left() -> None:
    machine = reducer()
    machine.resume(())
    effects = show(machine, UPDATES[0], leave(2, TRAINERS[1]))
    assert not machine.over
    due_s = machine.next_deadline_s()
    assert due_s == 1.0 + LEAVE_HEARD_S
    effects = machine.tick(due_s)
    assert [len(one.job.inputs) for one in effects if isinstance(one, Merge)] == [1]


def test_it_knows_who_left_before_it_was_drawn() -> None:
    machine = reducer(running(trainers=2))
    machine.resume(())
    show(machine, leave(2, TRAINERS[1]))
    machine.handle(Adopted(SECOND), 2.0)
    assert set(machine.window.leaves) == {TRAINERS[1].peer}
    show(machine, beacon(3, TRAINERS[1]), now_s=2.1)
    assert machine.window.leaves == {}


def test_it_leaves_the_open_height() -> None:
    machine = reducer()
    machine.resume(())
    (effect,) = machine.leave()
    assert isinstance(effect, Publish)
    assert (effect.signed.content, effect.signed.scope) == (Leave(), SETTING.scope(2))
