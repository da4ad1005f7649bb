"""What a demo came to: read from the nodes' own ledgers once they have ended, and shown."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.core.decision import Outcome as Promoted
from p2pd.core.derive import Setting
from p2pd.core.wording import counted
from p2pd.core.work import MILLION
from p2pd.io.ledger import SqliteLedger
from p2pd.node.chronicle import Chronicle
from p2pd.node.lineage import metric_of, tally

HEADS_TO_BE_GOOD = 8
"""A shorter demo is not held to an accuracy."""
GOOD_ACCURACY = 0.95


@dataclass(frozen=True, slots=True)
class HeightRow:
    height: int
    outcome: str
    accepted: int
    rejected: int
    accuracy: float | None
    """Fraction; median over the validators."""
    train_s: float | None
    overhead_s: float | None


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    role: str
    peer: str
    head: str
    height: int


@dataclass(frozen=True, slots=True)
class Outcome:
    ok: bool
    why: str
    """Why it is not; empty otherwise."""
    head: str
    height: int
    accuracy: float
    central_accuracy: float
    agree: bool
    seconds: float
    nodes: tuple[NodeRow, ...]
    heights: tuple[HeightRow, ...]
    directory: Path

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["directory"] = str(self.directory)
        return data


@dataclass(frozen=True, slots=True)
class Run:
    """What the demo knows besides the ledgers."""

    directory: Path
    nodes: tuple[tuple[str, str, str], ...]
    """(name, role, peer id in hex)."""
    setting: Setting
    windows: int
    """Heads that were asked for."""
    times: Mapping[int, tuple[float | None, float | None]]
    """Per height: training and overhead, seconds."""
    central_accuracy: float
    seconds: float


def read_outcome(run: Run) -> Outcome:
    """Raises StoreError: a node's ledger cannot be read."""
    nodes = tuple(_node(run, *row) for row in run.nodes)
    heights = _heights(run)
    last = max(nodes, key=lambda node: node.height)
    measured = [row.accuracy for row in heights if row.accuracy is not None]
    accuracy = measured[-1] if measured else 0.0
    agree = len({(node.head, node.height) for node in nodes}) == 1
    why = _why_not(heights, run.windows, accuracy, agree=agree)
    return Outcome(
        ok=not why,
        why=why,
        head=last.head,
        height=last.height,
        accuracy=accuracy,
        central_accuracy=run.central_accuracy,
        agree=agree,
        seconds=round(run.seconds, 3),
        nodes=nodes,
        heights=heights,
        directory=run.directory,
    )


def _why_not(heights: tuple[HeightRow, ...], wanted: int, accuracy: float, *, agree: bool) -> str:
    promoted = sum(row.outcome == "promoted" for row in heights)
    if not agree:
        return "the nodes do not stand on one head"
    if promoted < wanted:
        return f"{counted(promoted, 'head')} promoted, {wanted} needed"
    if wanted >= HEADS_TO_BE_GOOD and accuracy < GOOD_ACCURACY:
        return f"the accuracy is {accuracy:.3f}, {GOOD_ACCURACY} is needed"
    return ""


@contextmanager
def _chronicle(run: Run, name: str) -> Iterator[Chronicle]:
    with SqliteLedger(run.directory / "nodes" / name / "ledger.sqlite") as ledger:
        yield Chronicle(ledger, run.setting)


def _node(run: Run, name: str, role: str, peer: str) -> NodeRow:
    with _chronicle(run, name) as chronicle:
        decision = trio.run(chronicle.last)
        return NodeRow(name, role, peer, decision.head.hex(), decision.height)


def _heights(run: Run) -> tuple[HeightRow, ...]:
    """Every height after genesis, as the first validator's ledger has it."""
    rows = []
    with _chronicle(run, "validator1") as chronicle:
        height = 1
        while (record := chronicle.record(height)) is not None:
            decision = record.decision
            counts = tally(decision)
            promoted = decision.header.outcome is Promoted.PROMOTED
            metric = metric_of(chronicle, decision) if promoted else None
            train_s, overhead_s = run.times.get(height, (None, None))
            rows.append(
                HeightRow(
                    height=height,
                    outcome=decision.header.outcome.text,
                    accepted=counts.accepted,
                    rejected=counts.rejected,
                    accuracy=None if metric is None else metric / MILLION,
                    train_s=None if train_s is None else round(train_s, 3),
                    overhead_s=None if overhead_s is None else round(overhead_s, 3),
                )
            )
            height += 1
    return tuple(rows)
