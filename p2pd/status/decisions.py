"""The newest decisions of a revision as a table, as many of its columns as there is room for."""

from collections.abc import Callable, Mapping

from rich.console import RenderableType
from rich.text import Text

from p2pd.status.fitting import FirstThatFits, table
from p2pd.status.pictures import DIM, duration, figure
from p2pd.status.snapshot import DecisionInfo, RevisionInfo

METRIC_COLUMNS = 10
"""Of a metric's name."""

PARTS, WHOLE = "parts", "whole"
"""Of the seconds."""
CHOICES = (
    ("height", "outcome", "head", "cohort", "metric", PARTS),
    ("height", "outcome", "cohort", "metric", PARTS),
    ("height", "outcome", "head", "cohort", "metric", WHOLE),
    ("height", "outcome", "cohort", "metric", WHOLE),
)
"""Columns; the first choice that fits is taken."""
TO_THE_LEFT = ("outcome", "head")


def decisions_table(revision: RevisionInfo, rows: int) -> RenderableType:
    if not revision.decisions:
        return Text("none seen yet", style=DIM)
    shown = revision.decisions[: -rows - 1 : -1]
    headers = {"metric": revision.metric[:METRIC_COLUMNS], PARTS: "seconds", WHOLE: "seconds"}
    # Where no decision has parts, that choice has nothing more to say.
    parted = any(one.vote_s is not None for one in shown)
    choices = [names for names in CHOICES if parted or PARTS not in names]
    return FirstThatFits(
        [
            table(
                [
                    [Text(headers.get(name, name), style=DIM) for name in names],
                    *([CELLS[name](one) for name in names] for one in shown),
                ],
                right=[n for n, name in enumerate(names) if name not in TO_THE_LEFT],
            )
            for names in choices
        ]
    )


def _outcome(decision: DecisionInfo) -> Text:
    # kept(blocked-by-canary) is shown as: blocked
    outcome = decision.outcome.removeprefix("kept(").removesuffix(")").partition("-")[0]
    return Text(outcome, style="green" if decision.outcome == "promoted" else "yellow")


def _short_head(decision: DecisionInfo) -> Text:
    return Text(decision.head[:6], style="" if decision.outcome == "promoted" else DIM)


def _cohort(decision: DecisionInfo) -> Text:
    """Accepted, of how many leases where some brought nothing, and what was not accepted."""
    cohort = Text(f"{decision.accepted}", style="green")
    if decision.accepted + decision.rejected < decision.leases:
        cohort.append(f" of {decision.leases}", style="yellow")
    if decision.rejected:
        cohort.append(f" -{decision.rejected}", style="red")
    return cohort


def _metric(decision: DecisionInfo) -> Text:
    return Text("" if decision.metric is None else figure(decision.metric))


def _parts(decision: DecisionInfo) -> Text:
    if decision.train_s is None or decision.overhead_s is None or decision.vote_s is None:
        return _whole(decision)
    parts = decision.train_s, decision.overhead_s - decision.vote_s, decision.vote_s
    return Text("+".join(map(duration, parts)), style=DIM)


def _whole(decision: DecisionInfo) -> Text:
    whole_s = decision.took_s
    if decision.train_s is not None and decision.overhead_s is not None:
        whole_s = decision.train_s + decision.overhead_s
    return Text("" if whole_s is None else duration(whole_s), style=DIM)


CELLS: Mapping[str, Callable[[DecisionInfo], Text]] = {
    "height": lambda one: Text(str(one.height), style="bold"),
    "outcome": _outcome,
    "head": _short_head,
    "cohort": _cohort,
    "metric": _metric,
    PARTS: _parts,
    WHOLE: _whole,
}
