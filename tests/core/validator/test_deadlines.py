"""No machine may ask to be woken at a time that it has been woken at: its driver would spin."""

from collections.abc import Callable
from typing import Any, Protocol

from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.decision import Decision
from p2pd.core.derive import merge_job
from p2pd.core.encoding import encode
from p2pd.core.ids import DecisionId
from p2pd.core.messages import Service
from p2pd.core.reducer import Reducer
from p2pd.core.trainer import FetchBase, Train, Trained, Trainer
from p2pd.core.validator.events import (
    Adopted,
    Evaluate,
    EvaluationDone,
    Fetched,
    FetchUpdate,
    Inspect,
    Inspected,
    Merge,
    MergeDone,
    ObjectSeen,
)
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import TrainResult
from p2pd.io.keys import Ed25519Signer
from p2pd.wire.envelope import seal
from tests.core.builders import (
    GENESIS,
    REDUCERS,
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    beacon,
    choices,
    follow,
    reduction,
    release,
    running,
    update,
)
from tests.core.validator.council import Chair, busy, honest, merged_of

FIRST = running(trainers=2, reducers=2)
SECOND = follow(FIRST, choices(FIRST, [update(FIRST, TRAINERS[0])], all_present(FIRST, 2, 2)))
IDLE = follow(FIRST, choices(FIRST, [update(FIRST, TRAINERS[0])]))
NEXT: dict[DecisionId, tuple[Decision, ...]] = {GENESIS.id: (FIRST,), FIRST.id: (SECOND, IDLE)}


class Machine(Protocol):
    def handle(self, event: Any, now_s: float) -> list[Any]: ...
    def tick(self, now_s: float) -> list[Any]: ...
    def next_deadline_s(self) -> float | None: ...


def answers(job: object) -> list[object]:
    """What may come back."""
    match job:
        case Train(job=inner):
            result = TrainResult(inner.base, 10, 10, 1, 0, 1.0)
            return [Trained(inner, result, ""), Trained(inner, None, "died")]
        case FetchBase(artifact=artifact):
            return [Fetched(artifact, here=True), Fetched(artifact, here=False)]
        case FetchUpdate(artifact=artifact):
            return [honest(job), Fetched(artifact, here=False)]
        case Inspect(job=inspection):
            return [honest(job), Inspected(inspection.artifact, None)]
        case Merge(inputs=inputs):
            return [MergeDone(inputs, merged_of(job)), MergeDone(inputs, None)]
        case Evaluate(head=head):
            return [honest(job), EvaluationDone(head, None)]
    return []


def objects(previous: Decision, round_: int) -> list[Any]:
    """All kinds of things that others say at the height after previous."""
    scope = SETTING.scope(previous.height + 1)
    values = [None, DecisionId(bytes(32))]
    votes = [
        seal(signer, "vote", scope, Vote(step, round_, value, NO_ROUND, ()))
        for signer in VALIDATORS[1:]
        for step in (Step.PREVOTE, Step.PRECOMMIT)
        for value in values
    ]
    proposer = VALIDATORS[(previous.height + 1 + round_) % 4]
    content = Proposal(round_, NO_ROUND, encode(choices(previous)), ())
    said = [*votes, seal(proposer, "proposal", scope, content)]
    said += [beacon(scope.height, who) for who in TRAINERS[:2]]
    said += [beacon(scope.height, REDUCERS[0], Service.REDUCE)]
    for lease in previous.state.plan.roster:
        who = next(one for one in TRAINERS if one.peer == lease.peer)
        said += [update(previous, who), update(previous, who, samples=10**6)]
        said += [release(previous, who)]
    return said


def run(machine: Machine, first: list[Any], previous: Decision, draw: Callable[[Any], Any]) -> None:
    now_s, jobs = 0.0, [*first]
    for _ in range(draw(st.integers(1, 25))):
        what = draw(st.sampled_from(("object", "answer", "due", "time", "adopt")))
        event: object | None = None
        if what == "object":
            said = objects(previous, draw(st.integers(0, 3)))
            event = ObjectSeen(said[draw(st.integers(0, len(said) - 1))])
        elif what == "answer" and jobs:
            possible = answers(jobs.pop(draw(st.integers(0, len(jobs) - 1))))
            event = possible[draw(st.integers(0, len(possible) - 1))] if possible else None
        elif what == "adopt" and previous.id in NEXT:
            following = NEXT[previous.id]
            previous = following[draw(st.integers(0, len(following) - 1))]
            event = Adopted(previous)
        elif what == "time":
            now_s += draw(st.sampled_from((0.0, 0.001, 0.7, 5.0, 61.0)))
        elif (due_s := machine.next_deadline_s()) is not None:
            now_s = max(now_s, due_s)
        if event is not None:
            jobs += machine.handle(event, now_s)
        jobs += machine.tick(now_s)
        due_s = machine.next_deadline_s()
        assert due_s is None or due_s > now_s


def signs(signer: Ed25519Signer) -> Any:
    return lambda kind, scope, content: seal(signer, kind, scope, content)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from((GENESIS, FIRST)), st.integers(0, 1))
def test_i09_a_validator_is_never_due_at_once_again(
    data: st.DataObject, previous: Decision, lives: int
) -> None:
    chair = Chair(VALIDATORS[0], SETTING, previous, answer=busy)
    chair.start()
    if lives:
        chair.see(*objects(previous, 0)[:8])
        chair.start()
    run(chair.machine, list(chair.effects), previous, data.draw)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from((GENESIS, FIRST)))
def test_i09_a_reducer_is_never_due_at_once_again(data: st.DataObject, previous: Decision) -> None:
    machine = Reducer(SETTING, REDUCERS[0].peer, signs(REDUCERS[0]), previous, 0.0)
    run(machine, list(machine.resume(())), previous, data.draw)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from((GENESIS, FIRST)))
def test_i09_a_trainer_is_never_due_at_once_again(data: st.DataObject, previous: Decision) -> None:
    machine = Trainer(SETTING, TRAINERS[0].peer, signs(TRAINERS[0]), previous)
    run(machine, list(machine.resume(())), previous, data.draw)


def test_a_reduction_for_another_window_never_reaches_the_votes() -> None:
    chair = Chair(VALIDATORS[0], SETTING, FIRST)
    chair.start()
    job = merge_job(SETTING, FIRST, choices(FIRST, [update(FIRST, TRAINERS[0])]).cohort)
    assert job is not None
    merged = merged_of(Merge(bytes(32), job))
    chair.see(reduction(FIRST, REDUCERS[0], merged, bytes(32)))
    assert list(chair.machine.reductions) == [(2, REDUCERS[0].peer)]
    chair.give(Adopted(SECOND))
    assert list(chair.machine.reductions) == [(2, REDUCERS[0].peer)]
    chair.give(Adopted(follow(SECOND, choices(SECOND))))
    assert chair.machine.reductions == {}
