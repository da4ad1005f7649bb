"""The certified lineage as rows for people and scripts. Metrics are in millionths until they are shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median_low

from p2pd.cli.reading import Chain
from p2pd.core.decision import Decision, Record, open_plans
from p2pd.core.derive import weight_of
from p2pd.core.governance import Governed
from p2pd.core.ids import peer_id
from p2pd.core.leases import find_lease
from p2pd.core.messages import ChoiceKind, Choices
from p2pd.core.work import MILLION, Verdict
from p2pd.errors import RemoteError, StoreError, UsageError
from p2pd.wire.envelope import load_choices
from p2pd.wire.records import load_record

HEIGHT_DIGITS = 18
"""More than any chain will have, and less than a height on disk can be."""


@dataclass(frozen=True, slots=True)
class Row:
    """One height, in short."""

    record: Record
    accepted: int
    rejected: int
    """Disputed ones included."""
    metric: int | None
    """Median over validators; None where nobody reported."""

    def as_json(self) -> dict[str, object]:
        decision = self.record.decision
        return {
            "height": decision.height,
            "decision": decision.id.hex(),
            "outcome": outcome_of(decision),
            "head": decision.head.hex(),
            "accepted": self.accepted,
            "rejected": self.rejected,
            "metric": None if self.metric is None else self.metric / MILLION,
            "samples": decision.state.progress.samples,
            "epoch": decision.state.progress.epoch,
        }


def outcome_of(decision: Decision) -> str:
    """In a word; the first head of a revision was signed with it, and never voted on."""
    return decision.header.outcome.text if decision.height else "genesis"


def rows(chain: Chain) -> Iterator[Row]:
    """Each height, ascending.

    Raises:
        StoreError: a record or a report is damaged; `verify` says more.
    """
    for height, data in chain.records():
        try:
            record = load_record(data, chain.setting.genesis.network)
            choices = choices_of(chain, record.decision)
            metric = median_metric(chain, record.decision)
        except RemoteError as error:
            raise StoreError(f"height {height}: {error}: see `p2pd heads verify`") from error
        verdicts = [candidate.verdict for candidate in choices.cohort] if choices else []
        accepted = verdicts.count(Verdict.ACCEPTED)
        yield Row(record, accepted, len(verdicts) - accepted, metric)


def choices_of(chain: Chain, decision: Decision) -> Choices | None:
    """None for the genesis decision."""
    if decision.height == 0:
        return None
    return load_choices(decision.choices, chain.setting.genesis.network)


def median_metric(chain: Chain, decision: Decision) -> int | None:
    """The lower median: one that a validator did measure."""
    reports = chain.reports(decision.height)
    metrics = [r.content.metric for r in reports if r.content.head == decision.head]
    return median_low(metrics) if metrics else None


def parse_height(text: str, chain: Chain) -> int:
    """Raises UsageError: neither a height nor `latest`."""
    if text == "latest":
        return chain.last_height()
    if not text.isdecimal() or len(text) > HEIGHT_DIGITS:
        raise UsageError(f"height {text!r} must be a whole number, or: latest")
    return int(text)


def record_at(chain: Chain, height: int) -> Record:
    data = chain.record(height)
    if data is None:
        raise UsageError(f"height {height} is not here; the newest is {chain.last_height()}")
    try:
        return load_record(data, chain.setting.genesis.network)
    except RemoteError as error:
        raise StoreError(f"height {height}: {error}: see `p2pd heads verify`") from error


def detail(chain: Chain, height: int) -> dict[str, object]:
    """All that a decision says, and who voted for it: what `p2pd heads show --json` writes."""
    record = record_at(chain, height)
    decision = record.decision
    return {
        "revision": chain.setting.revision.id.hex(),
        "height": height,
        "decision": decision.id.hex(),
        "outcome": outcome_of(decision),
        "head": decision.head.hex(),
        "reports": [
            {
                "peer": report.signer.hex(),
                "metric": report.content.metric / MILLION,
                "loss": report.content.loss / MILLION,
                "samples": report.content.samples,
                "figures": {one.name: one.value / MILLION for one in report.content.figures},
            }
            for report in chain.reports(height)
        ],
        "cohort": _cohort(chain, decision),
        "missed": _missed(chain, decision),
        "outer": decision.header.outer.hex() if decision.header.outer else None,
        "step": decision.step.artifact.hex() if decision.step else None,
        "merge_rule": decision.merged.rule if decision.merged else None,
        "votes": _votes(chain, record),
        "leases": [
            {
                "peer": lease.peer.hex(),
                "samples": lease.samples,
                "shards": list(lease.shards),
                "reserved": list(lease.reserved),
            }
            for lease in decision.state.plan.roster
        ],
        "plan": decision.state.plan.state.name.lower(),
        "progress": {
            "heads": decision.state.progress.heads,
            "steps": decision.state.progress.steps,
            "samples": decision.state.progress.samples,
            "epoch": decision.state.progress.epoch,
        },
        "standing": [
            {
                "peer": row.peer.hex(),
                "score": row.score,
                "delivered": row.delivered,
                "missed": row.missed,
                "rejected": row.rejected,
                "wrong_merges": row.wrong_merges,
                "quarantined_until": row.quarantined_until,
            }
            for row in decision.state.standing
        ],
        "suspended": [peer.hex() for peer in decision.state.suspended],
        "ends": _ends(decision.state.governed),
    }


def _ends(governed: Governed) -> dict[str, int | float | None]:
    """In force after the decision, with the number of the last governance record that the chain has taken."""
    ends = governed.ends
    return {
        "heads": ends.heads,
        "epochs": ends.epochs,
        "target": None if ends.target is None else ends.target / MILLION,
        "governance": governed.log.number,
    }


def _cohort(chain: Chain, decision: Decision) -> list[dict[str, object]]:
    choices = choices_of(chain, decision)
    if choices is None:
        return []
    # Where the height before was leapt over, nobody here knows what was leased.
    before = chain.record(decision.height - 1)
    previous = record_at(chain, decision.height - 1).decision if before else None
    entries = []
    for candidate in choices.cohort:
        update = candidate.update
        dealt = find_lease(update, previous) if previous else None
        leased = dealt.lease.samples if dealt else 0
        entries.append(
            {
                "update": update.id.hex(),
                "peer": update.signer.hex(),
                "verdict": candidate.verdict.name.lower(),
                "samples": update.content.samples,
                "leased": None if previous is None else leased,
                "late": None if previous is None else update.content.plan != previous.id,
                "steps": update.content.steps,
                "size_bytes": update.content.size_bytes,
                "artifact": update.content.artifact.hex(),
                "weight": None if previous is None else weight_of(candidate, leased),
            }
        )
    return entries


def _missed(chain: Chain, decision: Decision) -> list[dict[str, object]]:
    """Leases that brought no update, and by now can bring none."""
    choices = choices_of(chain, decision)
    if choices is None or choices.kind not in (ChoiceKind.WINDOW, ChoiceKind.BLOCKED):
        return []
    if chain.record(decision.height - 1) is None:
        return []
    here = {(one.update.content.plan, one.update.signer) for one in choices.cohort}
    late = decision.state.late
    return [
        {"peer": lease.peer.hex(), "leased": lease.samples}
        for dealt, plan in open_plans(record_at(chain, decision.height - 1).decision)
        for lease in plan.roster
        if (dealt, lease.peer) not in here and (late is None or late.dealt != dealt)
    ]


def _votes(chain: Chain, record: Record) -> list[dict[str, object]]:
    weights = {seat.key: seat.weight for seat in chain.setting.genesis.validators}
    if record.certificate is None:
        return []
    return [
        {
            "peer": peer_id(vote.author).hex(),
            "weight": weights.get(vote.author, 0),
            "round": vote.content.round,
        }
        for vote in record.certificate.precommits
    ]
