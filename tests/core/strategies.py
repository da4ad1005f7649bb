"""Hypothesis strategies for every dataclass that is encoded, from its type hints."""

import dataclasses
import types
import typing
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.codecs import CODECS, HEAD_CODECS
from p2pd.core.decision import Decision, Record
from p2pd.core.genesis import Genesis, Seat, SignedGenesis
from p2pd.core.governance import ActionKind, Extend, GovernanceRecord, SignedGovernance
from p2pd.core.hello import Hello, PeerRecord
from p2pd.core.ids import PublicKey
from p2pd.core.messages import (
    Beacon,
    Candidate,
    Choices,
    Leave,
    Reduction,
    Release,
    Report,
    Update,
)
from p2pd.core.revision import Canary, DataSpec, Origin, Revision, Schedule, SignedRevision
from p2pd.core.signed import Signed
from p2pd.core.talk import (
    Decided,
    GetChoices,
    GetChunk,
    GetFarthest,
    GetGovernance,
    GetHeld,
    GetManifest,
    GetPeers,
    GetRecords,
    GetRevision,
    GovernanceTip,
    Holdings,
    Inventory,
    Objects,
    Peers,
    Records,
    Tip,
)
from p2pd.core.votes import Certificate, Reason, ReasonKind, Step, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import (
    FULL,
    MILLION,
    Figure,
    Inspection,
    MergeJob,
    MergeRule,
    OuterRule,
    Schema,
    TensorSpec,
    Verdict,
)

TALKS: tuple[type, ...] = (
    Objects, Tip, Decided, Inventory, Holdings, GetManifest, GetChunk, GetHeld, GetRecords, GetPeers, GetRevision,
    GetChoices, GetFarthest, GovernanceTip, GetGovernance,
)  # fmt: skip
CONTENTS: tuple[Any, ...] = (
    Vote, Proposal, Update, Beacon, Release, Leave, Reduction, Report, PeerRecord,
)  # fmt: skip
SIGNED: tuple[Any, ...] = (
    Signed[Vote], Signed[Proposal], Signed[Update], Signed[Beacon], Signed[Release],
    Signed[Leave], Signed[Reduction], Signed[Report], Signed[PeerRecord],
)  # fmt: skip
KINDS: tuple[Any, ...] = (
    *TALKS, *CONTENTS, *SIGNED, Records, Peers, Hello, Manifest, Choices,
    Certificate, Decision, Record, SignedGenesis, SignedRevision, SignedGovernance, MergeJob,
    Inspection,
)  # fmt: skip

ints = st.integers(-(2**64), 2**64 - 1)
ids = st.binary(min_size=32, max_size=32)
titles = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
"""Of networks and revisions: printable."""
counts = st.integers(1, 2**40)


@cache
def any_of(kind: Any) -> SearchStrategy[Any]:
    """Values of a type that has an encoding."""
    while isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    atoms: dict[Any, SearchStrategy[Any]] = {
        int: ints, bytes: st.binary(max_size=40), str: st.text(max_size=20), bool: st.booleans(),
        types.NoneType: st.none(),
    }  # fmt: skip
    if kind in atoms:
        return atoms[kind]
    special = _special()
    if kind in special:
        return special[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*map(any_of, arguments))
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(any_of(arguments[0]), max_size=3).map(tuple)
        return st.tuples(*map(any_of, arguments))
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return st.sampled_from(kind)
    owner = origin or kind
    assert dataclasses.is_dataclass(owner), kind
    hints = get_type_hints(owner)
    fields = {
        field.name: any_of(arguments[0] if isinstance(hints[field.name], TypeVar) else hints[field.name])
        for field in dataclasses.fields(owner)
    }  # fmt: skip
    return st.builds(owner, **fields)  # type: ignore[arg-type]


@cache
def _special() -> dict[Any, SearchStrategy[Any]]:
    """Those whose fields cannot take every value of their types."""
    rounds = st.integers(0, 2**31 - 1)
    names = st.text(min_size=1, max_size=20)
    figures = st.text("abc_/0é", min_size=1, max_size=16)
    reason = st.builds(Reason, st.sampled_from(ReasonKind), ids, ints)
    reasons = st.lists(reason, max_size=4).map(tuple)
    votes = st.one_of(
        st.builds(Vote, st.just(Step.PREVOTE), rounds, st.none(), st.just(-1), reasons),
        st.builds(Vote, st.just(Step.PRECOMMIT), rounds, st.none() | ids, st.just(-1), st.just(())),
        st.builds(
            Vote, st.just(Step.PREVOTE), st.integers(9, 99), ids, st.integers(-1, 8), st.just(())
        ),
    )
    sides = st.integers(0, 2**64 - 1)
    return {
        Vote: votes,
        Proposal: st.one_of(
            st.builds(Proposal, rounds, st.just(-1), st.binary(max_size=60), st.just(())),
            st.deferred(_backed_proposals),
        ),
        Evidence: st.deferred(_evidence),
        Update: st.builds(Update, ids, ids, ids, counts, counts, counts, st.integers(0, 2**32)),
        Report: st.builds(
            Report, ids, ints, ints, ints,
            st.dictionaries(figures, st.integers(-(10**9), 10**9), max_size=3).map(
                lambda named: tuple(Figure(*one) for one in named.items())
            ),
        ),
        Extend: st.builds(Extend, ids, st.integers(0, 9), st.none()),
        GovernanceRecord: st.builds(
            GovernanceRecord, ids, st.integers(1, 99), ids, st.just(ActionKind.EXTEND),
            st.deferred(lambda: any_of(Extend)),
        ),
        Origin: st.builds(Origin, ids, st.integers(0, 99), ids),
        Release: st.builds(Release, ids, st.text(max_size=30)),
        Candidate: st.deferred(
            lambda: st.builds(
                Candidate, any_of(Signed[Update]), st.sampled_from(Verdict), st.just(FULL)
            )
        ),
        Schema: st.dictionaries(names, st.lists(sides, max_size=3).map(tuple), max_size=3).map(
            _schema
        ),
        MergeRule: st.builds(
            MergeRule, st.just("mean"), counts, st.integers(0, MILLION // 2 - 1)
        ),
        OuterRule: st.just(OuterRule("mean", MILLION, 0)),
        DataSpec: st.builds(DataSpec, st.just("indexed"), st.just(1000), st.integers(1, 1000)),
        Schedule: st.just(Schedule(2, 8, 4, 60_000, 1000, 30_000, 0, 0)),
        Canary: st.builds(Canary, counts, st.integers(0, 9), st.integers(10, 99)),
        Revision: st.deferred(_revisions),
        Genesis: st.builds(
            Genesis, titles, st.binary(min_size=16, max_size=16), st.just((b"a" * 32,)), st.just(1),
            ids.map(lambda key: (Seat(PublicKey(key), 3),)), st.just(2), st.just("open"),
        ),
        Manifest: st.binary(min_size=32, max_size=32).map(
            lambda one: Manifest(ArtifactKind.HEAD, one, CHUNK_BYTES + 1, (one, one[::-1]))
        ),
    }  # fmt: skip


def _schema(shapes: dict[str, tuple[int, ...]]) -> Schema:
    return Schema(tuple(TensorSpec(name, "F32", shapes[name], False) for name in sorted(shapes)))


def _backed_proposals() -> SearchStrategy[Proposal]:
    quorum = st.lists(any_of(Signed[Vote]), min_size=1, max_size=3).map(tuple)
    return st.builds(
        Proposal, st.integers(9, 99), st.integers(0, 8), st.binary(max_size=60), quorum
    )


def _evidence() -> SearchStrategy[Evidence]:
    return st.one_of(
        st.builds(Evidence, st.tuples(*[any_of(Signed[Vote])] * 2), st.just(())),
        st.builds(Evidence, st.just(()), st.tuples(*[any_of(Signed[Proposal])] * 2)),
    )


def _revisions() -> SearchStrategy[Revision]:
    hints = get_type_hints(Revision)
    plain = {name: any_of(kind) for name, kind in hints.items()}
    narrow = {"study": titles, "experiment": titles, "name": titles, "head": ids, "seed": ids}
    narrow["codec"] = st.sampled_from(CODECS)
    narrow["head_codec"] = st.sampled_from(HEAD_CODECS)
    return st.builds(Revision, **(plain | narrow))
