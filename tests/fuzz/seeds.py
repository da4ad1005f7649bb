"""Sound inputs of each kind, made by the code that makes the real ones."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.codecs import update_schema
from p2pd.core.decision import Record
from p2pd.core.encoding import encode
from p2pd.core.forks import fork_of
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import DecisionId
from p2pd.core.messages import Choices, Report
from p2pd.core.signed import Signed
from p2pd.core.talk import (
    GetChoices,
    GetFarthest,
    GetManifest,
    GetPeers,
    GetRecords,
    GetRevision,
    Holdings,
    Inventory,
    Objects,
    Purpose,
    Tip,
    dump_talk,
)
from p2pd.core.votes import NO_ROUND
from p2pd.core.voting import exchange
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import Inspection, Schema, TensorSpec, Verdict
from p2pd.tensors.layout import layout_of
from p2pd.wire.envelope import dump, seal
from p2pd.wire.records import dump_record, seal_genesis, seal_revision
from tests.core.builders import (
    AUTHORITY,
    REDUCERS,
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    beacon,
    choices,
    extension,
    follow,
    leave,
    prevote,
    record,
    reduction,
    release,
    right_inputs,
    running,
    update,
)

NETWORK = SETTING.genesis.network
HERE = SETTING.revision.id
HELLO = Hello(PROTOCOL_VERSION, NETWORK, ("validator",), "127.0.0.1:4700", "p2pd")
DEALT = running(trainers=2, reducers=2)
OTHER = running(trainers=3)
CHOSEN: Choices = choices(
    DEALT, [update(DEALT, one) for one in TRAINERS[:2]], all_present(DEALT, 2, 2)
)
NEXT = follow(DEALT, CHOSEN)
VALUE = DecisionId(b"v" * 32)
SCHEMA = Schema((TensorSpec("bias", "F32", (3,), False), TensorSpec("on", "BOOL", (2,), False)))
FORK = fork_of(SETTING, record(DEALT), record(OTHER))


@cache
def signed() -> tuple[Signed[Any], ...]:
    quorum = tuple(prevote(2, one, VALUE) for one in VALIDATORS[:3])
    assert NEXT.merged is not None
    proposals = (
        Proposal(0, NO_ROUND, encode(CHOSEN), ()),
        Proposal(1, 0, encode(CHOSEN), quorum),
    )
    return (
        prevote(2, VALIDATORS[0], VALUE),
        update(DEALT, TRAINERS[0]),
        beacon(2, TRAINERS[0]),
        release(DEALT, TRAINERS[0]),
        leave(2, TRAINERS[0]),
        reduction(DEALT, REDUCERS[0], NEXT.merged, right_inputs(NEXT)),
        seal(VALIDATORS[0], "report", SETTING.scope(2), Report(NEXT.head, 900_000, 100, 3)),
        *(seal(VALIDATORS[1], "proposal", SETTING.scope(2), one) for one in proposals),
    )


def envelopes() -> list[bytes]:
    return [dump(one) for one in signed()]


def records() -> list[bytes]:
    return [dump_record(one) for one in (record(DEALT), record(NEXT), Record(DEALT, None))]


def genesis() -> list[bytes]:
    return [encode(seal_genesis(SETTING.genesis, (AUTHORITY,)))]


def governance() -> list[bytes]:
    return [encode(extension())]


def revisions() -> list[bytes]:
    return [encode(seal_revision(SETTING.revision, (AUTHORITY,)))]


def talks() -> list[bytes]:
    held = exchange.Inventory((0,), (0,), ())
    said: tuple[Any, ...] = (
        Objects(tuple(envelopes()[:2])),
        Tip(HERE, 2, VALUE),
        Inventory(HERE, 2, ()),
        Holdings(HERE, 2, held, Purpose.ASK),
        GetManifest(SETTING.revision.head),
        GetRecords(HERE, 1),
        GetFarthest(HERE, 1),
        GetPeers(3),
        GetRevision(HERE),
        GetChoices(HERE, VALUE),
    )
    return [dump_talk(one) for one in said]


def manifests() -> list[bytes]:
    sizes = (0, 100, 3 * CHUNK_BYTES + 1)
    chunks = (0, 1, 4)
    return [
        encode(Manifest(ArtifactKind.HEAD, bytes(32), size, (bytes(32),) * count))
        for size, count in zip(sizes, chunks, strict=True)
    ]


def tensors() -> list[bytes]:
    layout = layout_of(SCHEMA.tensors)
    data = np.arange(3, dtype="<f4").tobytes() + bytes([0, 1])
    return [layout.header + data]


def steps() -> list[bytes]:
    layout = layout_of(update_schema(SCHEMA, "int8").tensors)
    data = bytes([1, 127, 129]) + np.ones(1, "<f4").tobytes() + bytes([0, 1])
    return [layout.header + data]


def inspections() -> list[bytes]:
    return [encode(Inspection(SETTING.revision.head, Verdict.ACCEPTED, ""))]


def configurations() -> list[bytes]:
    found = sorted((Path(__file__).parents[2] / "configs").rglob("*.toml"))
    return [path.read_bytes() for path in found]


def lines() -> list[bytes]:
    said: tuple[Any, ...] = (
        {"call": "status"},
        {"answer": {"node": {}}},
        {"error": "no"},
        [1, 2.5, None],
    )
    return [json.dumps(one).encode() + b"\n" for one in said]
