"""What a decision says, counted and measured for people: read from the ledger, not from memory."""

from dataclasses import dataclass
from statistics import median_low

from p2pd.core.decision import Decision
from p2pd.core.encoding import decode
from p2pd.core.messages import Choices
from p2pd.core.work import Verdict
from p2pd.node.chronicle import Chronicle


@dataclass(frozen=True, slots=True)
class Tally:
    accepted: int
    rejected: int


def tally(decision: Decision) -> Tally:
    """How many updates a decision accepted, and how many it did not."""
    if not decision.choices:
        return Tally(0, 0)
    cohort = decode(Choices, decision.choices).cohort
    accepted = sum(candidate.verdict is Verdict.ACCEPTED for candidate in cohort)
    return Tally(accepted, len(cohort) - accepted)


def metric_of(chronicle: Chronicle, decision: Decision) -> int | None:
    """The metric of a head in millionths: the median over the validators that reported it."""
    values = [
        report.content.metric
        for report in chronicle.reports(decision.height)
        if report.content.head == decision.head
    ]
    return median_low(values) if values else None


def last_measured(chronicle: Chronicle) -> tuple[int, int] | None:
    """The newest height that validators have reported on, and the metric of its head in millionths."""
    height = chronicle.last_reported()
    record = None if height is None else chronicle.record(height)
    metric = None if record is None else metric_of(chronicle, record.decision)
    return None if height is None or metric is None else (height, metric)
