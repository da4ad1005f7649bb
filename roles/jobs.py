"""The jobs that validators and reducers share."""

import logging

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import carries_values
from p2pd.core.ids import ArtifactId, PeerId, short
from p2pd.core.validator.events import Fetched, FetchUpdate, Inspect, Inspected, Merge, MergeDone
from p2pd.core.work import RebuildJob
from p2pd.errors import (
    LocalError,
    NoRoomError,
    RemoteError,
    StoreError,
    UnreachableError,
    UsageError,
)
from p2pd.ports import Services

log = logging.getLogger("p2pd.roles")

FAILURES = (LocalError, RemoteError, StoreError, UnreachableError, UsageError)
"""Of the math process and of the files that it is given: none of them may end a role."""


async def fetch_update(services: Services, effect: FetchUpdate) -> Fetched:
    validators = (member.peer for member in services.setting.members(()).rows)
    providers = (effect.author, *validators)
    here = await services.fetch(
        effect.artifact, ArtifactKind.UPDATE, providers, owner=effect.author
    )
    return Fetched(effect.artifact, here)


async def fetch_head(services: Services, head: ArtifactId) -> bool:
    """Heads are made or fetched by every validator: ask them first.

    Who has the head before takes the step from it; where that does not lead there, the whole head.
    """
    providers: tuple[PeerId, ...] = tuple(m.peer for m in services.setting.members(()).rows)
    for job in services.ways_to(head):
        if not await _rebuild(services, job, providers):
            break
    return await services.fetch(head, ArtifactKind.HEAD, providers)


async def _rebuild(services: Services, job: RebuildJob, providers: tuple[PeerId, ...]) -> bool:
    if not await services.fetch(job.step.artifact, ArtifactKind.STEP, providers):
        return False
    try:
        await services.math.rebuild(job)
    except FAILURES as error:
        log.warning("head %s is fetched as a whole: %s", short(job.head), error)
        return False
    return True


async def fetch_outer(services: Services, artifact: ArtifactId | None) -> bool:
    """The outer optimizer's state, where there is any: held by every validator that voted for it."""
    if artifact is None:
        return True
    providers = tuple(member.peer for member in services.setting.members(()).rows)
    return await services.fetch(artifact, ArtifactKind.OUTER, providers)


async def inspect(services: Services, effect: Inspect) -> Inspected:
    artifact = effect.job.artifact
    if not carries_values(effect.job.codec) and not await fetch_head(services, effect.job.base):
        return Inspected(artifact, None)
    try:
        return Inspected(artifact, await services.math.inspect(effect.job))
    except FAILURES as error:
        log.warning("update %s could not be looked at: %s", short(artifact), error)
        return Inspected(artifact, None)


async def merge(services: Services, effect: Merge) -> MergeDone:
    job = effect.job
    bases = {job.base, *(one.base for one in job.inputs if one.base is not None)}
    here = [await fetch_head(services, base) for base in sorted(bases)]
    if not all(here) or not await fetch_outer(services, job.outer):
        return MergeDone(effect.inputs, None)
    try:
        merged = await services.math.merge(effect.job)
    except NoRoomError:
        return MergeDone(effect.inputs, None)  # the store has said so
    except FAILURES as error:
        log.warning("%d updates could not be merged: %s", len(effect.job.inputs), error)
        return MergeDone(effect.inputs, None)
    services.keep(merged.head)
    if merged.step is not None:
        services.keep(merged.step.artifact)
    if merged.outer is not None:
        services.keep(merged.outer)
    return MergeDone(effect.inputs, merged)
