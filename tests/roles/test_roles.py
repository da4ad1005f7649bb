"""Each role carries out its machine's effects with nothing but the ports."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting, merge_job
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, PublicKey
from p2pd.core.messages import Choices
from p2pd.core.signed import Signed
from p2pd.core.trainer import Abandon, FetchBase, Train, Trained
from p2pd.core.validator.events import (
    Adopt,
    ChoicesFetched,
    Evaluate,
    EvaluationDone,
    FetchChoices,
    Fetched,
    FetchOuter,
    FetchUpdate,
    Halt,
    Inspect,
    Inspected,
    Merge,
    MergeDone,
    Publish,
    Remember,
)
from p2pd.core.work import (
    Inspection,
    InspectJob,
    Progress,
    RebuildJob,
    TrainJob,
    TrainResult,
    Verdict,
)
from p2pd.errors import (
    LocalError,
    NoRoomError,
    P2pError,
    RemoteError,
    StoreError,
    UnreachableError,
    UsageError,
    WorkloadError,
)
from p2pd.node.plugins import load_role, role_names
from p2pd.ports import Role, Services
from p2pd.sim.run import run_seeded
from p2pd.wire.envelope import load_choices, seal
from tests.core.builders import (
    SETTING,
    TRAINERS,
    VALIDATORS,
    beacon,
    choices,
    leave,
    record,
    running,
    update,
)
from tests.core.validator.council import evaluation, merged_of

FIRST = running(trainers=2, reducers=1)
MINE = update(FIRST, TRAINERS[0])
JOB = merge_job(SETTING, FIRST, choices(FIRST, [MINE]).cohort)
INSPECT = InspectJob(MINE.content.artifact, FIRST.head, SETTING.revision.schema)
IN_STEPS = replace(INSPECT, codec="bf16")
FOUND = Inspection(INSPECT.artifact, Verdict.ACCEPTED, "")
TRAIN = TrainJob(2, FIRST.head, (1,), 10, Progress(0, 0, 0, 0, 0), 5)
NO_ROOM = Trained(TRAIN, None, "the data directory has no room, or failed")
"""Which directory that is, nobody else needs to know."""
RESULT = TrainResult(MINE.content.artifact, 100, 10, 1, 0, 1.0)


@dataclass
class Desk:
    """Ports Services, Math and Worker: writes down what is asked, and answers or fails as it is told."""

    signer: Any = VALIDATORS[0]
    setting: Setting = SETTING
    decision: Decision = FIRST
    private_seed: int = 3
    error: P2pError | None = None
    here: bool = True
    bring_data: Any = None
    ways: tuple[RebuildJob, ...] = ()
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    kept: list[ArtifactId] = field(default_factory=list)

    @property
    def key(self) -> PublicKey:
        return PublicKey(self.signer.key)

    @property
    def math(self) -> Any:
        return self

    @property
    def worker(self) -> Any:
        return self

    def sign(self, kind: str, scope: Any, content: Any) -> Signed[Any]:
        return seal(self.signer, kind, scope, content)

    def open_choices(self, data: bytes) -> Choices:
        return load_choices(data, SETTING.genesis.network)

    def stored_votes(self) -> bytes | None:
        return None

    paused = ""

    def decision_at(self, height: int) -> None:
        return None

    def own_objects(self) -> tuple[Signed[Any], ...]:
        return ()

    def _note(self, *what: Any) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    async def remember_votes(self, height: int, state: bytes) -> None:
        self._note("remember", height, state)

    async def publish(self, signed: Signed[Any]) -> None:
        self._note("publish", signed)

    async def adopt(self, record: Record, *, derived: bool = False) -> None:
        self._note("adopt", record, derived)

    async def fetch(
        self,
        artifact: ArtifactId,
        kind: ArtifactKind,
        providers: Sequence[PeerId],
        owner: bytes = b"",
    ) -> bool:
        self.asked.append(("fetch", artifact, kind, tuple(providers), owner))
        return self.here

    def ways_to(self, head: ArtifactId) -> Sequence[RebuildJob]:
        return self.ways

    async def rebuild(self, job: RebuildJob) -> None:
        self._note("rebuild", job)

    def keep(self, artifact: ArtifactId) -> None:
        self.kept.append(artifact)

    async def fetch_choices(self, value: DecisionId, holders: Sequence[PeerId]) -> bytes | None:
        self._note("choices", value, tuple(holders))
        return b"choices"

    async def inspect(self, job: InspectJob) -> Inspection:
        self._note("inspect", job)
        return Inspection(job.artifact, Verdict.ACCEPTED, "")

    async def merge(self, job: Any) -> Any:
        self._note("merge", job)
        return merged_of(Merge(bytes(32), job))

    async def evaluate(self, job: Any) -> Any:
        self._note("evaluate", job)
        return evaluation(job.head)

    async def train(self, job: Any) -> Any:
        self._note("train", job)
        await trio.sleep(1.0)
        return RESULT


def role_of(name: str, desk: Desk) -> Role:
    services: Services = desk
    return load_role(name).at(services)


def carried_out(name: str, desk: Desk, effect: object) -> object:
    found: list[object] = []

    async def main() -> None:
        found.append(await role_of(name, desk).carry_out(effect))

    assert run_seeded(0, main, 10.0)
    return found[0]


def merge() -> Merge:
    assert JOB is not None
    return Merge(b"inputs", JOB)


def test_the_installed_roles_are_these() -> None:
    assert role_names() == ("bootstrap", "reducer", "trainer", "validator", "viewer")
    assert [name for name in role_names() if load_role(name).needs_worker] == [
        "trainer",
        "validator",
    ]
    assert all(load_role(name).offers == (name,) for name in role_names())


@pytest.mark.parametrize("name", ["bootstrap", "viewer"])
def test_a_passive_role_does_nothing(name: str) -> None:
    role = role_of(name, Desk())
    assert [*role.start(0.0), *role.handle(beacon(2, TRAINERS[0]), 1.0), *role.tick(2.0)] == []
    assert role.next_deadline_s() is None
    assert role.choices_of(FIRST.id) is None
    assert role.view().activity


@pytest.mark.parametrize("name", ["trainer", "reducer"])
def test_a_role_that_others_count_on_says_that_it_leaves(name: str) -> None:
    desk = Desk(signer=TRAINERS[0])
    (effect,) = role_of(name, desk).leave()
    assert carried_out(name, desk, effect) is None
    ((what, signed),) = desk.asked
    assert (what, signed) == ("publish", leave(2, TRAINERS[0]))


@pytest.mark.parametrize("name", ["bootstrap", "validator", "viewer"])
def test_a_role_that_nobody_waits_for_leaves_without_a_word(name: str) -> None:
    assert list(role_of(name, Desk()).leave()) == []


@pytest.mark.parametrize("name", ["trainer", "reducer", "validator"])
def test_an_active_role_starts_and_says_what_it_does(name: str) -> None:
    desk = Desk(signer=VALIDATORS[0] if name == "validator" else TRAINERS[0])
    role = role_of(name, desk)
    effects = role.start(5.0)
    assert effects
    assert role.view().activity
    assert (role.view().voting is not None) == (name == "validator")


@pytest.mark.parametrize(
    ("name", "effect", "answer"),
    [
        ("reducer", FetchUpdate(INSPECT.artifact, TRAINERS[0].peer), Fetched(INSPECT.artifact, here=True)),
        ("validator", FetchUpdate(INSPECT.artifact, TRAINERS[0].peer), Fetched(INSPECT.artifact, here=True)),
        ("validator", Inspect(INSPECT), Inspected(INSPECT.artifact, FOUND)),
        ("reducer", merge(), MergeDone(b"inputs", merged_of(Merge(bytes(32), merge().job)))),
        ("validator", merge(), MergeDone(b"inputs", merged_of(Merge(bytes(32), merge().job)))),
        ("validator", Evaluate(FIRST.head), EvaluationDone(FIRST.head, evaluation(FIRST.head))),
        ("validator", FetchChoices(FIRST.id, ()), ChoicesFetched(FIRST.id, b"choices")),
        ("trainer", FetchBase(FIRST.head), Fetched(FIRST.head, here=True)),
        ("trainer", Train(TRAIN), Trained(TRAIN, RESULT, "")),
    ],
)  # fmt: skip
def test_a_job_is_answered_by_its_event(name: str, effect: object, answer: object) -> None:
    desk = Desk()
    assert role_of(name, desk).is_job(effect)
    assert carried_out(name, desk, effect) == answer


@pytest.mark.parametrize(
    ("name", "effect", "error", "answer"),
    [
        ("validator", Inspect(INSPECT), StoreError("gone"), Inspected(INSPECT.artifact, None)),
        ("reducer", Inspect(INSPECT), UnreachableError("died"), Inspected(INSPECT.artifact, None)),
        ("validator", Inspect(INSPECT), RemoteError("cut"), Inspected(INSPECT.artifact, None)),
        ("validator", merge(), LocalError("other bits"), MergeDone(b"inputs", None)),
        ("validator", merge(), RemoteError("no safetensors"), MergeDone(b"inputs", None)),
        ("reducer", merge(), UsageError("too little memory"), MergeDone(b"inputs", None)),
        ("validator", Evaluate(FIRST.head), WorkloadError("hung"), EvaluationDone(FIRST.head, None)),
        ("validator", merge(), NoRoomError("full"), MergeDone(b"inputs", None)),
        ("validator", Evaluate(FIRST.head), StoreError("gone"), EvaluationDone(FIRST.head, None)),
        ("trainer", Train(TRAIN), WorkloadError("step 3"), Trained(TRAIN, None, "step 3")),
        ("trainer", Train(TRAIN), NoRoomError("/home/me/blobs: full"), NO_ROOM),
    ],
)  # fmt: skip
def test_a_helper_that_fails_is_an_answer_too(
    name: str, effect: object, error: P2pError, answer: object
) -> None:
    assert carried_out(name, Desk(error=error), effect) == answer


def test_whoever_runs_a_trainer_reads_why_it_does_not_train(
    caplog: pytest.LogCaptureFixture,
) -> None:
    carried_out("trainer", Desk(error=WorkloadError("the loss is nan at step 3")), Train(TRAIN))
    assert caplog.messages == ["height 2 is not trained: the loss is nan at step 3"]


@pytest.mark.parametrize(
    ("effect", "answer"),
    [
        (Inspect(IN_STEPS), Inspected(INSPECT.artifact, None)),
        (merge(), MergeDone(b"inputs", None)),
        (Evaluate(FIRST.head), EvaluationDone(FIRST.head, None)),
    ],
)
def test_without_the_head_nothing_is_asked_of_the_helpers(effect: object, answer: object) -> None:
    desk = Desk(here=False)
    assert carried_out("validator", desk, effect) == answer
    assert [what[0] for what in desk.asked] == ["fetch"]


def test_an_update_that_carries_values_is_looked_at_without_its_base() -> None:
    desk = Desk(here=False)
    answer = carried_out("validator", desk, Inspect(INSPECT))
    assert answer == Inspected(INSPECT.artifact, FOUND)
    assert "fetch" not in [what[0] for what in desk.asked]


def test_an_update_is_asked_of_its_author_and_of_all_validators() -> None:
    desk = Desk()
    carried_out("validator", desk, FetchUpdate(INSPECT.artifact, TRAINERS[0].peer))
    ((_, artifact, kind, providers, owner),) = desk.asked
    assert (artifact, kind) == (INSPECT.artifact, ArtifactKind.UPDATE)
    assert owner == TRAINERS[0].peer
    assert providers[0] == TRAINERS[0].peer
    assert set(providers[1:]) == {one.peer for one in VALIDATORS}


@pytest.mark.parametrize(
    ("name", "effect", "asked"),
    [
        ("validator", Remember(2, b"state"), ("remember", 2, b"state")),
        ("validator", Publish(MINE), ("publish", MINE)),
        ("trainer", Publish(MINE), ("publish", MINE)),
        ("reducer", Publish(MINE), ("publish", MINE)),
        ("validator", Adopt(record(FIRST)), ("adopt", record(FIRST), True)),
    ],
)
def test_what_is_no_job_is_done_in_order(
    name: str, effect: object, asked: tuple[object, ...]
) -> None:
    desk = Desk()
    assert not role_of(name, desk).is_job(effect)
    assert carried_out(name, desk, effect) is None
    assert desk.asked == [asked]


def test_halting_ends_the_node_with_the_reason() -> None:
    with pytest.raises(LocalError, match="merge mismatch"):
        carried_out("validator", Desk(), Halt("merge mismatch at 3"))


@pytest.mark.parametrize("name", ["trainer", "reducer", "validator"])
def test_an_effect_of_another_role_is_a_bug(name: str) -> None:
    with pytest.raises(AssertionError):
        carried_out(name, Desk(), object())


def virtually(main: Callable[[], Awaitable[None]]) -> None:
    assert run_seeded(0, main, 10.0)


def test_abandoned_training_gives_no_answer() -> None:
    answers: list[object] = []

    async def main() -> None:
        role = role_of("trainer", Desk())

        async def train() -> None:
            answers.append(await role.carry_out(Train(TRAIN)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(train)
            await trio.sleep(0.5)
            await role.carry_out(Abandon())
        assert trio.current_time() == 0.5

    virtually(main)
    assert answers == [None]


def test_before_it_merges_it_has_every_head_that_an_update_started_from_and_the_outer_state() -> (
    None
):
    earlier, outer = ArtifactId(b"e" * 32), ArtifactId(b"o" * 32)
    job = merge().job
    late = replace(job, outer=outer, inputs=(replace(job.inputs[0], base=earlier),))
    desk = Desk()
    assert carried_out("validator", desk, Merge(b"inputs", late)) != MergeDone(b"inputs", None)
    fetched = {(one[1], one[2]) for one in desk.asked if one[0] == "fetch"}
    assert fetched == {
        (job.base, ArtifactKind.HEAD),
        (earlier, ArtifactKind.HEAD),
        (outer, ArtifactKind.OUTER),
    }


def test_the_outer_state_is_fetched_with_the_head_of_a_new_height() -> None:
    outer = ArtifactId(b"o" * 32)
    header = replace(FIRST.header, outer=outer)
    desk = Desk(decision=replace(FIRST, header=header))
    role = role_of("validator", desk)
    (wanted,) = [one for one in role.start(0.0) if isinstance(one, FetchOuter)]
    assert role.is_job(wanted)
    assert carried_out("validator", desk, wanted) is None
    assert desk.asked[-1][1:3] == (outer, ArtifactKind.OUTER)
