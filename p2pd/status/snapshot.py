"""What a node knows of itself and of the network at one moment, as plain values.

A node answers {"call": "status"} with to_json(snapshot). Ids are lowercase hex, times seconds.
"""

import math
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from p2pd.errors import RemoteError, printable

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    name: str
    """Empty where its owner gave it none."""
    role: str
    peer: str
    network: str
    """Name of the network."""
    version: str
    uptime_s: float
    address: str
    """host:port; empty when it takes no connections."""
    lag_p99_s: float = 0.0
    """How late its event loop comes to a task: 99 of 100 times at most so long, in two minutes."""
    lag_most_s: float = 0.0
    most_sent_bytes_s: float = 0.0
    """Over all links together, in the two seconds since its start that had most of it."""
    most_received_bytes_s: float = 0.0
    degraded: tuple[str, ...] = ()
    """What does not work as it should, each in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerInfo:
    peer: str
    roles: tuple[str, ...]
    address: str
    linked: bool
    """False: only known of."""
    agent: str = ""
    """Program and version, as it says; empty while there is no link."""
    sent_bytes: int = 0
    received_bytes: int = 0
    sent_bytes_s: float = 0.0
    received_bytes_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VotingInfo:
    """The height that is being decided."""

    round: int
    step: str
    """idle, propose, prevote or precommit."""
    proposer: str
    prevoted: int
    """Weight heard in this round."""
    precommitted: int
    quorum: int
    weight: int
    """Of all validators."""
    listening: bool = False
    """Restarted, and not voting before it has heard the others."""
    muted: bool = False
    """Its key voted without it: it does not vote at this height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseInfo:
    peer: str
    samples: int
    state: str
    """training, announced, accepted, rejected or released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    step: str
    """publish, fetch, screen, merge, evaluate, propose, vote or adopt; on a trainer also train."""
    after_s: float
    """Since the plan, when this node had done it for the last time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInfo:
    height: int
    outcome: str
    head: str
    accepted: int
    rejected: int
    metric: float | None = None
    """Median over validators; None where none has reported."""
    leases: int = 0
    """Dealt for it; 0 where this node does not know."""
    train_s: float | None = None
    """From the plan to the last update; None where this node saw none before the decision."""
    overhead_s: float | None = None
    """From there to the decision."""
    vote_s: float | None = None
    """Of that, from the first proposal on; before it updates are waited for, checked and merged. None as above."""
    took_s: float | None = None
    """From the plan to the decision; None where this node did not follow both as they came."""
    steps: tuple[StepInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredInfo:
    height: int
    """At which validators reported last: a head that is promoted again is not measured anew."""
    metric: float
    """Median over validators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingInfo:
    peer: str
    score: int
    """0 to 1024."""
    delivered: int
    missed: int
    rejected: int
    quarantined_until: int
    """Height from which it may serve again; 0 for never quarantined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingInfo:
    """What this node's own worker does."""

    stage: str
    """In a few words, like: training 480 samples."""
    samples: int
    """Of its lease; 0 for none."""
    elapsed_s: float
    """Since the height was opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionInfo:
    revision: str
    study: str
    experiment: str
    name: str
    metric: str
    """Its name."""
    higher_is_better: bool
    height: int
    """Of the newest decision."""
    head: str
    plan: str
    """running, idle or finished."""
    heads: int
    """Promoted so far."""
    epoch: int
    samples: int
    """Trained on and accepted so far."""
    end_heads: int = 0
    """After so many promoted heads the run ends, as is in force now; 0 for never."""
    end_epochs: int = 0
    target: float | None = None
    """Of the metric; None where the run ends by none."""
    origin: str = ""
    """Of whose certified head its first one is, in words; empty for none."""
    deadline_s: float = 0.0
    """Length of a window at most."""
    closes_in_s: float | None = None
    """At the latest; None while only messages can end the window."""
    voting: VotingInfo | None = None
    """None on a node that does not validate."""
    leases: tuple[LeaseInfo, ...] = ()
    decisions: tuple[DecisionInfo, ...] = ()
    """The newest ones, ascending by height."""
    measured: MeasuredInfo | None = None
    """The last measurement that is known, however long ago; None where there was none yet."""
    standing: tuple[StandingInfo, ...] = ()
    training: TrainingInfo | None = None
    """None on a node that does not train."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferInfo:
    artifact: str
    done_bytes: int
    size_bytes: int | None
    """None until its manifest is here."""
    providers: int
    """Peers that it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    what: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    node: NodeInfo
    peers: tuple[PeerInfo, ...] = ()
    revisions: tuple[RevisionInfo, ...] = ()
    transfers: tuple[TransferInfo, ...] = ()
    heard: tuple[Count, ...] = ()
    """Objects that came in, by kind."""
    refused: tuple[Count, ...] = ()
    """Objects that were refused, by reason."""
    printed: tuple[str, ...] = ()
    """By the workload of this node: its last lines."""
    devices: str = ""
    """On what that workload computes; empty before it is built."""
    working: str = ""
    """What the workload's process is at, in a few words: `train, step 7 for 2 s`; empty while it waits."""


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """As JSON has it. What is not a finite number becomes null."""
    plain = _plain(snapshot)
    assert isinstance(plain, dict)
    return plain


def from_json(data: object) -> Snapshot:
    """The snapshot, its texts fit for a screen.

    Raises:
        RemoteError: not what to_json makes: a field is missing, unknown or of another type.
    """
    snapshot = _build(Snapshot, data, "status")
    assert isinstance(snapshot, Snapshot)
    return snapshot


def _plain(value: object) -> Json:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    kind: type = type(value)
    return {name: _plain(getattr(value, name)) for name in _hints(kind)}


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _build(kind: Any, data: object, where: str) -> object:  # noqa: ANN401 - any type expression
    if get_origin(kind) is UnionType:
        (kind,) = (option for option in get_args(kind) if option is not NoneType)
        return None if data is None else _build(kind, data, where)
    if get_origin(kind) is tuple:
        if not isinstance(data, list):
            raise RemoteError(f"{where} must be a list")
        return tuple(
            _build(get_args(kind)[0], item, f"{where}[{n}]") for n, item in enumerate(data)
        )
    if kind is float and type(data) in (int, float):
        return float(data)  # type: ignore[arg-type]  # its type has just been checked
    if kind in (str, int, bool, float):
        if type(data) is not kind:
            raise RemoteError(f"{where} must be {kind.__name__}, got {type(data).__name__}")
        return printable(data) if isinstance(data, str) else data
    hints = _hints(kind)
    if not isinstance(data, dict) or data.keys() != hints.keys():
        raise RemoteError(f"{where} must have the fields {', '.join(hints)}")
    return kind(
        **{name: _build(hint, data[name], f"{where}.{name}") for name, hint in hints.items()}
    )
