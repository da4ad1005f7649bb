"""A small certified chain in a data directory, made by the pure core and keys held in hand."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import trio

from p2pd.config.node import StoreSettings
from p2pd.core.artifact import ArtifactKind
from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting, derive, genesis_decision, merge_job
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.ids import ArtifactId
from p2pd.core.messages import Beacon, Candidate, ChoiceKind, Choices, Report, Service, Update
from p2pd.core.revision import Canary, DataSpec, Revision, Schedule, WorkloadSpec
from p2pd.core.votes import NO_ROUND, Certificate, Step, Vote
from p2pd.core.work import (
    FULL,
    Figure,
    HeadStep,
    Merged,
    MergeRule,
    OuterRule,
    Schema,
    TensorSpec,
    Verdict,
)
from p2pd.io.blobs import FileBlobStore
from p2pd.io.keys import Ed25519Signer
from p2pd.io.ledger import SqliteLedger
from p2pd.ports import Table, Write
from p2pd.tensors.layout import layout_of
from p2pd.wire.envelope import dump, seal
from p2pd.wire.records import dump_record, seal_genesis, seal_revision

SCHEMA = Schema((TensorSpec("weight", "F32", (2, 3), False),))
MILLION = 1_000_000


def key(name: str) -> Ed25519Signer:
    return Ed25519Signer(sha256(name.encode()).digest())


AUTHORITY = key("authority")
VALIDATORS = [key(f"validator {n}") for n in range(3)]
TRAINERS = [key(f"trainer {n}") for n in range(2)]


@dataclass(frozen=True)
class Built:
    data_dir: Path
    genesis_file: Path
    setting: Setting
    decisions: tuple[Decision, ...]

    @property
    def arguments(self) -> list[str]:
        return ["--genesis", str(self.genesis_file), "--data-dir", str(self.data_dir)]

    def edit(self, statement: str, *values: Any) -> None:
        """Changes the ledger behind everybody's back."""
        connection = sqlite3.connect(self.data_dir / "ledger.sqlite")
        with connection:
            assert connection.execute(statement, values).rowcount == 1
        connection.close()

    def stored(self, height: int) -> bytes:
        connection = sqlite3.connect(self.data_dir / "ledger.sqlite")
        query = "SELECT value FROM decisions WHERE key = ?"
        row = connection.execute(query, (self.key(height),)).fetchone()
        connection.close()
        return bytes(row[0])

    def store(self, height: int, value: bytes) -> None:
        self.edit("UPDATE decisions SET value = ? WHERE key = ?", value, self.key(height))

    def key(self, height: int) -> bytes:
        return self.setting.revision.id + height.to_bytes(8)

    def blob(self, artifact: ArtifactId) -> Path:
        return self.data_dir / "blobs" / artifact.hex()


def tensor_bytes(number: int) -> bytes:
    """A canonical safetensors file of SCHEMA."""
    return layout_of(SCHEMA.tensors).header + bytes([0, 0, 0x80, 0x3F, 0, 0, number, 0x40] * 3)


def build_chain(
    root: Path,
    heights: int = 4,
    missed_at: int = 0,
    authority: Sequence[Ed25519Signer] = (AUTHORITY,),
    **changes: Any,
) -> Built:
    """D(0) idle, D(1) deals leases, then windows with one accepted and one rejected update each.

    At height missed_at the second trainer brings nothing. changes are of the revision. More than half of the
    authority must sign.
    """
    data_dir = root / "node"
    data_dir.mkdir(mode=0o700)
    genesis = Genesis(
        name="lab",
        nonce=bytes(16),
        authority=tuple(signer.key for signer in authority),
        threshold=len(authority) // 2 + 1,
        validators=tuple(Seat(signer.key, 1) for signer in VALIDATORS),
        quorum=2,
        admission="open",
    )
    genesis_file = root / "genesis.cbor"
    genesis_file.write_bytes(encode(seal_genesis(genesis, tuple(authority))))
    founded = genesis, tuple(authority)
    return trio.run(_fill, data_dir, genesis_file, founded, heights, missed_at, changes)


FIGURES = (Figure("top5", 990_000),)


async def _fill(
    data_dir: Path,
    genesis_file: Path,
    founded: tuple[Genesis, tuple[Ed25519Signer, ...]],
    heights: int,
    missed_at: int,
    changes: Mapping[str, Any],
) -> Built:
    genesis, authority = founded
    settings = StoreSettings(quota_bytes=0, reserve_bytes=0)
    store = FileBlobStore(data_dir / "blobs", settings, on_damage=lambda *_: None)
    heads = [
        await store.put(ArtifactKind.HEAD, SCHEMA.id, tensor_bytes(n)) for n in range(heights + 1)
    ]
    revision = replace(revision_of(genesis, heads[0]), **changes)
    setting = Setting(genesis, revision)
    states: list[ArtifactId | None] = [None] * (heights + 1)
    if revision.state_parts:
        schema = revision.outer_schema.id
        states = [
            await store.put(ArtifactKind.OUTER, schema, bytes([n])) for n in range(heights + 1)
        ]
    steps: list[ArtifactId | None] = [None] * (heights + 1)
    if revision.head_codec != "f32":
        schema = revision.step_schema.id
        steps = [await store.put(ArtifactKind.STEP, schema, bytes([n])) for n in range(heights + 1)]
    decisions = [genesis_decision(setting)]
    signed = seal_revision(setting.revision, authority)
    writes = [
        Write(Table.REVISIONS, setting.revision.id, encode(signed)),
        Write(Table.DECISIONS, setting.revision.id + bytes(8), encode(Record(decisions[0], None))),
    ]
    for height in range(1, heights + 1):
        there = TRAINERS[: 1 if height == missed_at else None]
        made = heads[height], states[height], steps[height]
        decision = _next(setting, decisions[-1], made, there)
        record = Record(decision, certify(setting, decision))
        decisions.append(decision)
        place = setting.revision.id + height.to_bytes(8)
        writes.append(Write(Table.DECISIONS, place, dump_record(record)))
        for n, signer in enumerate(VALIDATORS):
            report = Report(decision.head, 900_000 + 1000 * height + n, 300_000, 360, FIGURES)
            envelope = dump(seal(signer, "report", setting.scope(height), report))
            writes.append(Write(Table.REPORTS, place + signer.peer, envelope))
    with SqliteLedger(data_dir / "ledger.sqlite") as ledger:
        await ledger.commit(writes)
    return Built(data_dir, genesis_file, setting, tuple(decisions))


def revision_of(genesis: Genesis, head: ArtifactId) -> Revision:
    return Revision(
        network=genesis.network,
        study="digits",
        experiment="small",
        name="r1",
        workload=WorkloadSpec("p2pd.workloads.digits", "{}", bytes(32), "accuracy", True),
        schema=SCHEMA,
        data=DataSpec("indexed", 1000, 10),
        schedule=Schedule(2, 8, 4, 60_000, 1000, 30_000, 0, 0),
        merge=MergeRule("mean", 2 * MILLION, 0),
        outer=OuterRule("mean", MILLION, 0),
        canary=Canary(32, 20_000, 100_000),
        head=head,
        seed=bytes(32),
    )


def _next(
    setting: Setting,
    previous: Decision,
    made: tuple[ArtifactId, ArtifactId | None, ArtifactId | None],
    there: Sequence[Ed25519Signer],
) -> Decision:
    """made are the head, the state and the step of a merge."""
    head, outer, step = made
    scope = setting.scope(previous.height + 1)
    beacons = [seal(signer, "beacon", scope, Beacon(Service.TRAIN)) for signer in TRAINERS]
    presence = tuple(sorted(beacons, key=lambda beacon: beacon.signer))
    cohort: list[Candidate] = []
    for signer, verdict in zip(there, (Verdict.ACCEPTED, Verdict.NONFINITE), strict=False):
        lease = previous.state.plan.lease_of(signer.peer)
        if lease is not None:
            update = Update(previous.id, previous.state.plan.base, head, 100, lease.samples, 2)
            cohort.append(Candidate(seal(signer, "update", scope, update), verdict, FULL))
    cohort.sort(key=lambda candidate: candidate.update.id)
    kind = ChoiceKind.WINDOW if cohort else ChoiceKind.IDLE
    choices = Choices(kind, tuple(cohort), presence, (), (), ())
    job = merge_job(setting, previous, choices.cohort)
    made_of = HeadStep(job.base, step) if job and step else None
    merged = Merged(head, outer, "mean", (FULL,), None, made_of) if job else None
    return derive(setting, previous, choices, encode(choices), merged)


def certify(
    setting: Setting, decision: Decision, signers: Sequence[Ed25519Signer] = VALIDATORS[:2]
) -> Certificate:
    scope = setting.scope(decision.height)

    def votes(step: Step) -> Any:
        vote = Vote(step, 0, decision.id, NO_ROUND, ())
        return tuple(seal(signer, "vote", scope, vote) for signer in signers)

    return Certificate(decision.id, 0, votes(Step.PRECOMMIT), votes(Step.PREVOTE))


def forged(decision: Decision, head: ArtifactId) -> Decision:
    """The same, but for its head."""
    return replace(decision, header=replace(decision.header, head=head))


def flip(path: Path, offset: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
