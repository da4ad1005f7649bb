"""Keys, a network of four validators, and what they, trainers and reducers sign: real signatures throughout."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting, derive, genesis_decision, inputs_hash, merge_job
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.governance import (
    ActionKind,
    Extend,
    GovernanceRecord,
    LogPlace,
    SignedGovernance,
    beginning,
)
from p2pd.core.ids import ArtifactId, DecisionId, digest
from p2pd.core.messages import (
    Beacon,
    Candidate,
    ChoiceKind,
    Choices,
    Leave,
    Reduction,
    Release,
    Service,
    Update,
)
from p2pd.core.revision import Revision
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Reason, Step, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.work import FULL, HeadStep, Measured, Merged, Verdict
from p2pd.io.keys import Ed25519Signer
from p2pd.wire.envelope import seal
from p2pd.wire.records import seal_governance
from tests.cli.chains import certify, key, revision_of

AUTHORITY = key("authority")
VALIDATORS = sorted((key(f"validator {n}") for n in range(4)), key=lambda one: one.peer)
TRAINERS = sorted((key(f"trainer {n}") for n in range(6)), key=lambda one: one.peer)
REDUCERS = sorted((key(f"reducer {n}") for n in range(3)), key=lambda one: one.peer)
STRANGER = key("stranger")
HEAD = ArtifactId(digest("artifact", b"genesis head"))


def genesis(**changes: Any) -> Genesis:
    plain = Genesis(
        name="lab",
        nonce=bytes(16),
        authority=(AUTHORITY.key,),
        threshold=1,
        validators=tuple(Seat(one.key, 1) for one in VALIDATORS),
        quorum=3,
        admission="open",
    )
    return replace(plain, **changes)


def setting_of(born: Genesis | None = None, **schedule: Any) -> Setting:
    born = born or genesis()
    return Setting(born, revision(born, **schedule))


def revision(born: Genesis, **schedule: Any) -> Revision:
    plain = revision_of(born, HEAD)
    return replace(plain, schedule=replace(plain.schedule, **schedule))


SETTING = setting_of()
GENESIS = genesis_decision(SETTING)


def beacon(
    height: int, who: Ed25519Signer, service: Service = Service.TRAIN, setting: Setting = SETTING
) -> Signed[Beacon]:
    return seal(who, "beacon", setting.scope(height), Beacon(service))


def update(
    previous: Decision, who: Ed25519Signer, setting: Setting = SETTING, **changes: Any
) -> Signed[Update]:
    """An honest one for the whole lease, but for the changes."""
    plan = previous.state.plan
    lease = plan.lease_of(who.peer)
    artifact = ArtifactId(digest("artifact", who.key + previous.id))
    content = Update(previous.id, plan.base, artifact, 100, lease.samples if lease else 1, 1)
    return seal(who, "update", setting.scope(previous.height + 1), replace(content, **changes))


def release(previous: Decision, who: Ed25519Signer, setting: Setting = SETTING) -> Signed[Release]:
    content = Release(previous.id, "out of memory")
    return seal(who, "release", setting.scope(previous.height + 1), content)


def leave(height: int, who: Ed25519Signer, setting: Setting = SETTING) -> Signed[Leave]:
    return seal(who, "leave", setting.scope(height), Leave())


def prevote(
    height: int,
    who: Ed25519Signer,
    value: DecisionId | None,
    round_: int = 0,
    *reasons: Reason,
    setting: Setting = SETTING,
) -> Signed[Vote]:
    content = Vote(Step.PREVOTE, round_, value, NO_ROUND, reasons)
    return seal(who, "vote", setting.scope(height), content)


def two_faces(height: int, who: Ed25519Signer, setting: Setting = SETTING) -> Evidence:
    """Two prevotes of one round."""
    pair = tuple(prevote(height, who, DecisionId(bytes([n]) * 32), setting=setting) for n in (1, 2))
    return Evidence(pair, ())


def reduction(
    previous: Decision,
    who: Ed25519Signer,
    merged: Merged,
    inputs: bytes,
    setting: Setting = SETTING,
) -> Signed[Reduction]:
    """For the window after previous."""
    content = Reduction(previous.id, inputs, merged)
    return seal(who, "reduction", setting.scope(previous.height + 1), content)


def right_inputs(decision: Decision) -> bytes:
    assert decision.state.merge is not None
    return decision.state.merge.inputs


def choices(
    previous: Decision,
    cohort: Sequence[Candidate | Signed[Update]] = (),
    presence: Sequence[Signed[Beacon]] = (),
    **more: Any,
) -> Choices:
    """In canonical order; updates are accepted unless they come as candidates."""
    candidates = [
        one if isinstance(one, Candidate) else Candidate(one, Verdict.ACCEPTED, FULL)
        for one in cohort
    ]
    idle = not previous.state.plan.roster
    fields: dict[str, Any] = {
        "kind": ChoiceKind.IDLE if idle else ChoiceKind.WINDOW,
        "cohort": tuple(sorted(candidates, key=lambda one: one.update.id)),
        "presence": tuple(sorted(presence, key=lambda one: one.signer)),
        "reductions": (),
        "evidence": (),
        "grounds": (),
    }
    return Choices(**(fields | more))


def all_present(
    previous: Decision, trainers: int = 2, reducers: int = 0, setting: Setting = SETTING
) -> list[Signed[Beacon]]:
    height = previous.height + 1
    training = [beacon(height, one, setting=setting) for one in TRAINERS[:trainers]]
    return training + [beacon(height, one, Service.REDUCE, setting) for one in REDUCERS[:reducers]]


def merge(setting: Setting, previous: Decision, chosen: Choices) -> Merged | None:
    """Stands for the math: whatever it makes of the inputs, it makes the same everywhere."""
    job = merge_job(setting, previous, chosen.cohort)
    if job is None:
        return None
    head = ArtifactId(digest("artifact", inputs_hash(job) + job.base))
    count = len(job.inputs)
    outer = None
    if job.state_parts:
        outer = ArtifactId(digest("artifact", head + (job.outer or b"")))
    step = None
    if job.head_codec != "f32":
        step = HeadStep(job.base, ArtifactId(digest("artifact", b"step to " + head)))
    measured = Measured(tuple(range(count)), (0,))
    return Merged(head, outer, "mean", (FULL,) * count, measured, step)


def follow(previous: Decision, chosen: Choices, setting: Setting = SETTING) -> Decision:
    return derive(setting, previous, chosen, encode(chosen), merge(setting, previous, chosen))


def record(decision: Decision, setting: Setting = SETTING) -> Record:
    return Record(decision, certify(setting, decision, VALIDATORS[:3]))


def running(trainers: int = 2, reducers: int = 0, setting: Setting = SETTING) -> Decision:
    """D(1): the first that deals leases."""
    born = genesis_decision(setting)
    return follow(born, choices(born, (), all_present(born, trainers, reducers, setting)), setting)


def extension(
    place: LogPlace | None = None,
    signers: Sequence[Ed25519Signer] = (AUTHORITY,),
    setting: Setting = SETTING,
    **changes: Any,
) -> SignedGovernance:
    """The record after place: the run ends after nine heads, but for the changes."""
    after = place or beginning(setting.genesis.network)
    action = Extend(setting.revision.id, 9, None)
    record = GovernanceRecord(
        setting.genesis.network, after.number + 1, after.record, ActionKind.EXTEND, action
    )
    fields = {key: changes.pop(key) for key in ("network", "number", "previous") if key in changes}
    record = replace(record, action=replace(action, **changes), **fields)
    return seal_governance(record, tuple(signers))
