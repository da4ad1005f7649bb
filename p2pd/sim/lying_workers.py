"""Trainers and reducers that lie, each in one way."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

from p2pd.core.ids import ArtifactId
from p2pd.core.messages import Beacon, Leave, Reduction, Release, Service, Update
from p2pd.core.reducer import with_other_head
from p2pd.core.signed import Signed
from p2pd.sim.liars import Lie, Sign
from p2pd.sim.tongues import Scene, Told, Tongue

FLOOD = 12
"""Times that a flooder says each thing at each height."""


def updating_twice(sign: Sign, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    content = signed.content
    if not isinstance(content, Update):
        return [Told(signed)]
    second = replace(content, steps=content.steps + 1)
    return [Told(signed), Told(sign(signed.kind, signed.scope, second))]


def naming_nothing(sign: Sign, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    """An update whose bytes do not exist."""
    content = signed.content
    if not isinstance(content, Update):
        return [Told(signed)]
    nowhere = ArtifactId(sha256(content.artifact).digest())
    other = sign(signed.kind, signed.scope, replace(content, artifact=nowhere))
    return [Told(other, scene.judges)]


def working_unasked(sign: Sign, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    """Never offers to train, so that it has no lease, and hands in work all the same."""
    if not isinstance(signed.content, Beacon):
        return [Told(signed)]
    plan, artifact = scene.previous.state.plan, ArtifactId(sha256(signed.message).digest())
    update = Update(scene.previous.id, plan.base, artifact, 100, 16, 1)
    return [Told(sign("update", signed.scope, update), scene.judges)]


def confiding(signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    """Its update is for one validator's ears."""
    if not isinstance(signed.content, Update):
        return [Told(signed)]
    return [Told(signed, frozenset(sorted(scene.others)[:1]))]


def merging_wrongly(sign: Sign, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    content = signed.content
    if not isinstance(content, Reduction):
        return [Told(signed)]
    other = replace(content, merged=with_other_head(content.merged))
    return [Told(sign(signed.kind, signed.scope, other))]


def absent(signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    return [] if isinstance(signed.content, Reduction) else [Told(signed)]


def flooding(sign: Sign, scene: Scene) -> Iterable[Told]:
    """As much as it can of all that a trainer may say once, now and for the next height."""
    plan, next_scope = (
        scene.previous.state.plan,
        replace(scene.scope, height=scene.scope.height + 1),
    )
    for n in range(FLOOD):
        artifact = ArtifactId(sha256(scene.previous.id + bytes([n])).digest())
        update = Update(scene.previous.id, plan.base, artifact, 100, 16, 1 + n)
        release = Release(scene.previous.id, f"reason {n}")
        for scope in (scene.scope, next_scope):
            yield Told(sign("update", scope, update), scene.judges)
            yield Told(sign("release", scope, release), scene.judges)
            yield Told(sign("beacon", scope, Beacon(Service(1 + n % 2))), scene.judges)


def leaving_for_show(sign: Sign, scene: Scene) -> Iterable[Told]:
    """This height before one validator, the last one before another: others in each height."""
    others, height = sorted(scene.others), scene.scope.height
    for n, scope in enumerate((scene.scope, replace(scene.scope, height=height - 1))):
        if others and scope.height > 0:
            yield Told(
                sign("leave", scope, Leave()), frozenset({others[(height + n) % len(others)]})
            )


@dataclass(slots=True)
class Late:
    """Says what it should have said a height later, or says it again for ever."""

    kind: str
    again: bool
    kept: deque[Signed[Any]] = field(default_factory=lambda: deque(maxlen=16))

    def tell(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        if signed.kind != self.kind:
            return [Told(signed)]
        self.kept.append(signed)
        return [Told(signed)] if self.again else []

    def enter(self, scene: Scene) -> Iterable[Told]:
        told = [Told(one, scene.judges) for one in self.kept]
        if not self.again:
            self.kept.clear()
        return told


def worker_tongue_of(lie: Lie, sign: Sign) -> Tongue:
    late = Late("update", again=True) if lie is Lie.OLD else Late("reduction", again=False)
    tongues = {
        Lie.TWICE: Tongue(partial(updating_twice, sign)),
        Lie.GONE: Tongue(partial(naming_nothing, sign)),
        Lie.UNASKED: Tongue(partial(working_unasked, sign)),
        Lie.CONFIDE: Tongue(confiding),
        Lie.WRONG_MERGE: Tongue(partial(merging_wrongly, sign)),
        Lie.ABSENT: Tongue(absent),
        Lie.OLD: Tongue(late.tell, enter=late.enter),
        Lie.LATE: Tongue(late.tell, enter=late.enter),
        Lie.FLOOD: Tongue(enter=partial(flooding, sign)),
        Lie.FAREWELL: Tongue(enter=partial(leaving_for_show, sign)),
    }
    # What the others do wrong is in their work (LyingWorker).
    return tongues.get(lie, Tongue())
