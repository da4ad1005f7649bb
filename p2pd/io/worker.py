"""The worker port: the user's workload in a process of its own, over inherited pipes.

Every call has a deadline. A process that hangs, dies or is killed is reaped with its whole group,
its cause is named, and the next call starts a new one. Units: seconds; artifacts pass as files.
"""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import trio

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.codecs import update_schema
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId
from p2pd.core.rest import Rest
from p2pd.core.wording import counted
from p2pd.core.work import (
    COUNT_MAX,
    LOSS_MAX,
    EvaluateJob,
    Evaluation,
    Schema,
    TrainJob,
    TrainResult,
    WorkloadInfo,
)
from p2pd.errors import LocalError, OtherWorkloadError, RemoteError, WorkloadError, printable
from p2pd.io.files import ArtifactFiles
from p2pd.io.worker_child import Child, Log, WorkerSettings
from p2pd.workload.protocol import (
    LIMIT_BYTES,
    Answer,
    BuildCall,
    Call,
    Done,
    EvaluateCall,
    Failure,
    InitialCall,
    Look,
    LookCall,
    Outcome,
    Request,
    TrainCall,
)

__all__ = ["WorkerProcess", "WorkerSettings"]

DEADLINES = {
    Call.BUILD: "build_s",
    Call.INITIAL: "build_s",
    Call.TRAIN: "train_s",
    Call.EVALUATE: "evaluate_s",
    Call.LOOK: "build_s",
}
"""The settings that say how long each call may take."""
FAILURE_CHARACTERS = 2000
"""Of what a process may say of a failure."""

T = TypeVar("T")


class WorkerProcess:
    """Implements p2pd.ports.Worker. The process starts with the first call that needs it."""

    def __init__(self, settings: WorkerSettings, files: ArtifactFiles, log: Log) -> None:
        """log gets each line that the user's code prints; it must not block."""
        self._settings = settings
        self._files = files
        self._log = log
        self._nursery: trio.Nursery | None = None
        self._child: Child | None = None
        self._lock = trio.Lock()
        self._info: WorkloadInfo | None = None
        self._number = 0
        self._rest = Rest(settings.rest_s, settings.rest_most_s)
        self._last_failure = ""
        self._under_way: Call | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves calls until cancelled. In the main thread: the process dies with its thread."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def info(self) -> WorkloadInfo:
        async with self._lock:
            return await self._ready()

    async def initial(self, weights: Path | None = None) -> ArtifactId:
        """The head that a revision of this workload and config starts from; kept in the blob store.

        weights: a safetensors file to take it from; else it is as the workload builds itself.

        Raises:
            WorkloadError: as all calls, or the weights are those of another model.
            StoreError: no room for it.
        """
        async with self._lock:
            info = await self._ready()
            async with self._files.output(".safetensors", 0) as output:  # of a size not known yet
                given = os.fsencode(weights) if weights is not None else b""
                call = InitialCall(os.fsencode(output), given)
                body = await self._call(Call.INITIAL, call, self._settings.build_s)
                manifest = parse(Manifest, body)
                _require_manifest(manifest, ArtifactKind.HEAD, info.schema)
                return await self._files.adopt(output, manifest)

    async def train(self, job: TrainJob) -> TrainResult:
        async with self._lock:
            info = await self._ready()
            return await train_by(self._call, self._settings, self._files, job, info)

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        async with self._lock:
            info = await self._ready()
            call = EvaluateCall(job, os.fsencode(await self._files.sound(job.head)))
            body = await self._call(Call.EVALUATE, call, self._settings.evaluate_s)
            evaluation = parse(Evaluation, body)
            _require_evaluation(evaluation, job, info)
            return evaluation

    async def look(self, head: ArtifactId) -> Look:
        """What the process sees of its workload, after an evaluation of head."""
        async with self._lock:
            await self._ready()
            call = LookCall(os.fsencode(await self._files.sound(head)))
            return parse(Look, await self._call(Call.LOOK, call, self._settings.build_s))

    def doing(self) -> str:
        """What its process is at, in a few words; empty while it waits."""
        if self._under_way is None or self._child is None or self._child.ended.is_set():
            return ""
        seen = self._child.seen()
        step = f", step {seen.steps}" if seen.steps else ""
        return f"{self._under_way.name.lower()}{step} for {seen.since_s:.0f} s"

    async def _ready(self) -> WorkloadInfo:
        """A process that has built the workload."""
        if self._nursery is None:
            raise LocalError("the worker is not running")
        if self._child is None or self._child.ended.is_set() or self._child.info is None:
            self._require_rested()
        if self._child is None or self._child.ended.is_set():
            try:
                self._child = Child(self._settings, self._log)
            except OSError as error:
                raise WorkloadError(f"the workload's process cannot be started: {error}") from error
            self._nursery.start_soon(self._child.attend)
        child = self._child
        if child.info is None:
            settings = self._settings
            call = build_call(settings)
            info = parse(WorkloadInfo, await self._call(Call.BUILD, call, settings.build_s))
            if self._info is not None and info != self._info:
                raise OtherWorkloadError(
                    f"workload {settings.module} was changed on disk: restart to use it as it is"
                )
            child.info = self._info = info
        return child.info

    async def _call(self, call: Call, content: object, deadline_s: float) -> bytes:
        """What the process that is there answers, which must be that it is done."""
        try:
            body = await self._ask(call, content, deadline_s)
        except WorkloadError as error:
            self._failed(error)
            raise
        if call in (Call.TRAIN, Call.EVALUATE):  # building alone shows little
            self._rest.went_well()
        return body

    def _failed(self, error: WorkloadError) -> None:
        self._rest.failed(trio.current_time())
        self._last_failure = str(error)
        if self._child is not None:
            self._child.info = None

    def _require_rested(self) -> None:
        """It refuses rather than waits: callers would pile up."""
        now_s, rest = trio.current_time(), self._rest
        if rest.is_on(now_s):
            raise WorkloadError(
                f"{self._last_failure}; not tried again for {rest.until_s - now_s:.1f} s"
                f" after {counted(rest.failures, 'failure')} in a row"
            )

    async def _ask(self, call: Call, content: object, deadline_s: float) -> bytes:
        """Asks the process that is there, and waits for its answer or its end."""
        child = self._child
        assert child is not None  # callers hold the lock, after _ready
        self._number += 1
        self._under_way = call
        answer: Answer | None = None
        late = ""
        limit_ms = round((deadline_s + self._settings.grace_s / 2) * 1000)
        limit = trio.CancelScope(relative_deadline=deadline_s)
        try:
            with limit:
                request = Request(self._number, call, encode(content), limit_ms)
                await self._send(child, request)
                answer = await child.answer(self._number)
        finally:
            self._under_way = None
            if answer is None and not child.ended.is_set():  # cancelled, or past the deadline
                with trio.CancelScope(shield=True):
                    why = "too late" if limit.cancelled_caught else "the lease is over"
                    late = await self._call_off(child, self._number, why)
        if answer is None:
            key = DEADLINES[call]
            raise WorkloadError(
                f"{call.name.lower()} passed its deadline of {deadline_s:g} s{late}: raise worker.{key},"
                " or have it do less"
            )
        if answer.outcome == Outcome.DONE:
            return answer.body
        if answer.outcome == Outcome.ENDING:
            await child.kill("one of its workers failed", self._settings.grace_s)
        failure = parse(Failure, answer.body)
        kind = OtherWorkloadError if failure.other else WorkloadError
        raise kind(printable(failure.message)[:FAILURE_CHARACTERS])

    async def _send(self, child: Child, request: Request) -> None:
        """A frame is sent whole or not at all: half of one would garble all that follows."""
        with trio.move_on_after(self._settings.grace_s, shield=True) as scope:
            await child.send(request)
        if scope.cancelled_caught:
            await child.kill("it did not read its requests", self._settings.grace_s)

    async def _call_off(self, child: Child, number: int, why: str) -> str:
        """Has a call stopped between two steps, else by force: how far it was, and what it did."""
        answer: Answer | None = None
        with trio.move_on_after(self._settings.grace_s), suppress(WorkloadError):
            await child.send(Request(number, Call.CANCEL, why.encode()))
            answer = await child.answer(number)
        if child.ended.is_set():
            return " and ended"
        seen = child.seen()
        far = f" after {counted(seen.steps, 'step')}" if seen.steps else ""
        if answer is None:
            far += f", {seen.doing} for {seen.since_s:.0f} s{child.place(seen)}, and its process was killed"
            await child.kill("it did not stop when told to", self._settings.grace_s)
            return far
        if answer.outcome == Outcome.FAILED:
            child.info = None
        return far


def build_call(settings: WorkerSettings) -> BuildCall:
    paths = tuple(os.fsencode(path) for path in settings.paths)
    return BuildCall(settings.module, settings.config, settings.threads, settings.devices, paths)


Ask = Callable[[Call, object, float], Awaitable[bytes]]
"""What a process that runs the workload answers to a call, within a deadline."""


async def train_by(
    ask: Ask, settings: WorkerSettings, files: ArtifactFiles, job: TrainJob, info: WorkloadInfo
) -> TrainResult:
    """One lease, its update kept in the blob store.

    Raises:
        WorkloadError: as ask, or what was answered is not what was asked for.
        StoreError: no room for it.
    """
    base = await files.sound(job.base)
    before = files.manifest(job.base)
    size_bytes = 0 if before is None else before.size_bytes  # no update is much larger
    if job.codec != "f32":
        size_bytes *= 2  # what the codec loses lies on the same disk
    own = os.fsencode(settings.own.absolute()) if settings.own else b""
    async with files.output(".safetensors", size_bytes) as output:
        call = TrainCall(job, os.fsencode(base), os.fsencode(output), own)
        done = parse(Done, await ask(Call.TRAIN, call, settings.train_s))
        _require_done(done, job, info)
        manifest = replace(done.manifest, owner=job.owner)
        artifact = await files.adopt(output, manifest)
    return TrainResult(
        artifact, manifest.size_bytes, done.samples, done.steps, done.loss, done.duration_us / 1e6
    )


def parse(kind: type[T], data: bytes) -> T:
    try:
        return decode(kind, data, limit_bytes=LIMIT_BYTES)
    except RemoteError as error:
        raise _malformed(str(error)) from error


# The process checks what the user's code returns, in words for its author. What it says itself is
# checked here again: it runs that code, and nothing behind this border asks twice.


def _require_done(done: Done, job: TrainJob, info: WorkloadInfo) -> None:
    leased = sum(
        min(job.shard_samples, info.train_samples - shard * job.shard_samples)
        for shard in job.shards
    )
    if done.samples > leased:
        raise _malformed(f"{done.samples} samples of a lease of {leased}")
    _require_manifest(done.manifest, ArtifactKind.UPDATE, update_schema(info.schema, job.codec))


def _require_manifest(manifest: Manifest, kind: ArtifactKind, schema: Schema) -> None:
    if (manifest.kind, manifest.schema) != (kind, schema.id) or not manifest.size_bytes:
        raise _malformed(f"it made another file than the {kind.name.lower()} it was asked for")


def _require_evaluation(found: Evaluation, job: EvaluateJob, info: WorkloadInfo) -> None:
    if found.head != job.head:
        raise _malformed("it evaluated another head")
    if not 0 < found.samples <= COUNT_MAX:
        raise _malformed(f"an evaluation on {found.samples} samples")
    if any(abs(value) > LOSS_MAX for value in (found.metric, found.loss, *found.private)):
        raise _malformed(f"a loss or a metric beyond {LOSS_MAX} millionths")
    wanted = min(job.private_samples, info.validation_samples) if found.finite else 0
    if len(found.private) != wanted:
        raise _malformed(f"{len(found.private)} losses for {counted(wanted, 'sample')}")


def _malformed(what: str) -> WorkloadError:
    return WorkloadError(f"the workload's process gave a malformed answer: {what}")
