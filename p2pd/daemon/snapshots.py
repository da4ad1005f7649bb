"""A running node as the plain values of its status. Seconds."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import trio

from p2pd.core.artifact import CHUNK_BYTES
from p2pd.core.decision import PlanState
from p2pd.core.ids import PeerId, RevisionId
from p2pd.core.messages import Leave, Release, Update
from p2pd.core.voting.events import View
from p2pd.core.work import MILLION
from p2pd.daemon.rates import Flow, Rates
from p2pd.daemon.watchdog import Lag
from p2pd.node.lane import Lane
from p2pd.node.lineage import last_measured, metric_of, tally
from p2pd.node.node import Node
from p2pd.node.steps import HeightTimes, Step
from p2pd.status.snapshot import (
    Count,
    DecisionInfo,
    LeaseInfo,
    MeasuredInfo,
    NodeInfo,
    PeerInfo,
    RevisionInfo,
    Snapshot,
    StandingInfo,
    StepInfo,
    TrainingInfo,
    TransferInfo,
    VotingInfo,
)

VERSION = "0.1.0"
DECISIONS_SHOWN = 64

NO_FLOW = Flow(0, 0, 0.0, 0.0)
NO_LAG = Lag(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Row:
    info: DecisionInfo
    settled: bool
    """No more measurements of it are taken."""


@dataclass(frozen=True, slots=True)
class WorkerSight:
    """What is seen of this node's worker."""

    printed: Callable[[], tuple[str, ...]] = tuple
    """The last lines of the workload."""
    devices: Callable[[], str] = str
    """On what it computes."""
    doing: Callable[[], str] = str
    """What its process is at, in a few words."""


NO_SIGHT = WorkerSight()


class Snapshots:
    """Takes the status of one node. What old decisions say is worked out once, and kept."""

    def __init__(
        self,
        node: Node,
        name: str,
        rates: Rates,
        lag: Callable[[], Lag] = lambda: NO_LAG,
        worker: WorkerSight = NO_SIGHT,
    ) -> None:
        self._node = node
        self._name = name
        self._rates = rates
        self._lag = lag
        self._worker = worker
        self._rows: dict[RevisionId, dict[int, _Row]] = {}
        """By height. No height is ever decided anew."""
        self._measured: dict[RevisionId, MeasuredInfo | None] = {}

    async def take(self, uptime_s: float) -> Snapshot:
        node = self._node
        for lane in node.lanes.values():
            await self._read(lane)
        lag = self._lag()
        info = NodeInfo(
            name=self._name,
            role=node.plugin.name,
            peer=node.transport.peer.hex(),
            network=node.genesis.name,
            version=VERSION,
            uptime_s=uptime_s,
            address=node.transport.address,
            lag_p99_s=lag.p99_s,
            lag_most_s=lag.most_s,
            most_sent_bytes_s=self._rates.most[0],
            most_received_bytes_s=self._rates.most[1],
            degraded=_degraded(node),
        )
        return Snapshot(
            node=info,
            peers=_peers(node, self._rates.flows()),
            revisions=tuple(
                replace(
                    _revision(node, lane, tuple(row.info for row in self._rows[revision].values())),
                    measured=self._measured[revision],
                )
                for revision, lane in node.lanes.items()
            ),
            transfers=_transfers(node),
            heard=_counts(node.heard),
            refused=_counts(node.refused),
            printed=self._worker.printed(),
            devices=self._worker.devices(),
            working=self._worker.doing(),
        )

    async def _read(self, lane: Lane) -> None:
        """Row by row: each takes milliseconds, for the signatures of its measurements."""
        known, rows = self._rows.get(lane.setting.revision.id, {}), {}
        height = max(0, lane.decision.height - DECISIONS_SHOWN)
        while height < lane.decision.height:  # which may grow meanwhile
            height += 1
            row = known.get(height)
            if row is None or not row.settled:
                await trio.lowlevel.checkpoint()
                times = _times_of(lane, height)
                if times is None:
                    continue  # this node leapt over it
                row = _Row(_decision(lane, times), height < lane.pool.lowest("report"))
            rows[height] = row
        self._rows[lane.setting.revision.id] = rows
        self._note_measured(lane, rows)

    def _note_measured(self, lane: Lane, rows: dict[int, _Row]) -> None:
        """In the rows if they go back so far; else what was seen before, in this life or in the ledger."""
        revision = lane.setting.revision.id
        for row in reversed(rows.values()):
            if row.info.metric is not None:
                self._measured[revision] = MeasuredInfo(
                    height=row.info.height, metric=row.info.metric
                )
                return
        if revision not in self._measured:
            self._measured[revision] = _measured_earlier(lane)


def _measured_earlier(lane: Lane) -> MeasuredInfo | None:
    found = last_measured(lane.chronicle)
    return None if found is None else MeasuredInfo(height=found[0], metric=found[1] / MILLION)


def _times_of(lane: Lane, height: int) -> HeightTimes | None:
    """Of a height that was decided before this node started the ledger has the decision; None where it has not."""
    for times in reversed(lane.history):
        if times.decision.height == height:
            return times
    record = lane.chronicle.record(height)
    return None if record is None else HeightTimes(record.decision, {}, live=False)


def _degraded(node: Node) -> tuple[str, ...]:
    found = list(node.health.troubles())
    if not node.transport.links():
        found.append("no links to other nodes")
    if trouble := node.discovery.clock.trouble():
        found.append(trouble)
    found += [fork for lane in node.lanes.values() if (fork := lane.forks.trouble())]
    if node.discovery.twin is not None:
        found.append(f"this identity is live at {node.discovery.twin} as well")
    return tuple(found)


def _counts(counter: Counter[str]) -> tuple[Count, ...]:
    return tuple(Count(what=what, count=count) for what, count in counter.most_common(20))


def _peers(node: Node, flows: Mapping[PeerId, Flow]) -> tuple[PeerInfo, ...]:
    known = {view.peer: view.record for view in node.discovery.known()}
    linked = {link.peer: link for link in node.transport.links()}
    rows = []
    for peer in sorted({*known, *linked}):
        link, record = linked.get(peer), known.get(peer)
        flow = flows.get(peer, NO_FLOW)
        rows.append(
            PeerInfo(
                peer=peer.hex(),
                roles=link.hello.roles if link else record.roles if record else (),
                address=link.remote if link else record.address if record else "",
                linked=link is not None,
                agent=link.hello.agent if link else "",
                sent_bytes=flow.sent_bytes,
                received_bytes=flow.received_bytes,
                sent_bytes_s=flow.sent_bytes_s,
                received_bytes_s=flow.received_bytes_s,
            )
        )
    return tuple(rows)


def _transfers(node: Node) -> tuple[TransferInfo, ...]:
    rows = []
    for view in node.transfer.downloads():
        size = view.size_bytes or 0
        rows.append(
            TransferInfo(
                artifact=view.artifact.hex(),
                done_bytes=max(0, size - view.missing_chunks * CHUNK_BYTES),
                size_bytes=view.size_bytes,
                providers=view.providers,
            )
        )
    return tuple(rows)


def _revision(node: Node, lane: Lane, decisions: tuple[DecisionInfo, ...]) -> RevisionInfo:
    revision, decision = lane.setting.revision, lane.decision
    state, schedule = decision.state, revision.schedule
    role = lane.role.view()
    running = state.plan.state is PlanState.RUNNING
    elapsed_s = trio.current_time() - lane.steps.opened_s
    return RevisionInfo(
        revision=revision.id.hex(),
        study=revision.study,
        experiment=revision.experiment,
        name=revision.name,
        metric=revision.workload.metric,
        higher_is_better=revision.workload.higher_is_better,
        height=decision.height,
        head=decision.head.hex(),
        plan=state.plan.state.name.lower(),
        heads=state.progress.heads,
        epoch=state.progress.epoch,
        samples=state.progress.samples,
        end_heads=state.governed.ends.heads,
        end_epochs=state.governed.ends.epochs,
        target=_figure(state.governed.ends.target),
        origin=revision.origin.text if revision.origin else "",
        deadline_s=schedule.deadline_ms / 1000,
        closes_in_s=schedule.deadline_ms / 1000 - elapsed_s if running else None,
        voting=_voting(lane, role.voting) if role.voting else None,
        leases=_leases(lane),
        decisions=decisions,
        standing=tuple(
            StandingInfo(
                peer=row.peer.hex(),
                score=row.score,
                delivered=row.delivered,
                missed=row.missed,
                rejected=row.rejected + row.wrong_merges,
                quarantined_until=row.quarantined_until,
            )
            for row in state.standing
        ),
        training=_training(node, lane, elapsed_s, role.activity),
    )


def _figure(millionths: int | None) -> float | None:
    return None if millionths is None else millionths / MILLION


def _voting(lane: Lane, view: View) -> VotingInfo:
    members = lane.setting.members(lane.decision.state.suspended)
    return VotingInfo(
        round=view.round,
        step=view.step.name.lower(),
        proposer=view.proposer.hex(),
        prevoted=view.prevoted,
        precommitted=view.precommitted,
        quorum=view.quorum,
        weight=members.total,
        listening=view.listening,
        muted=view.muted,
    )


def _leases(lane: Lane) -> tuple[LeaseInfo, ...]:
    said = {}
    for signed in lane.pool.held.values():
        if isinstance(signed.content, Update):
            said[signed.signer] = "announced"
        elif isinstance(signed.content, Release | Leave):
            said.setdefault(signed.signer, "released")
    return tuple(
        LeaseInfo(
            peer=lease.peer.hex(),
            samples=lease.samples,
            state=said.get(lease.peer, "training"),
        )
        for lease in lane.decision.state.plan.roster
    )


def _decision(lane: Lane, times: HeightTimes) -> DecisionInfo:
    decision = times.decision
    counts = tally(decision)
    metric = metric_of(lane.chronicle, decision)
    # Without an update there is nothing to time, or it was decided before this node was in.
    timed = Step.PUBLISH in times.reached
    before = _times_of(lane, decision.height - 1)
    return DecisionInfo(
        height=decision.height,
        outcome=decision.header.outcome.text,
        head=decision.head.hex(),
        accepted=counts.accepted,
        rejected=counts.rejected,
        metric=None if metric is None else metric / MILLION,
        leases=len(before.decision.state.plan.roster) if before else 0,
        train_s=times.train_s if timed else None,
        overhead_s=times.overhead_s if timed else None,
        vote_s=times.vote_s if timed else None,
        took_s=times.took_s,
        steps=tuple(
            StepInfo(step=step.value, after_s=after_s) for step, after_s in times.reached.items()
        ),
    )


def _training(node: Node, lane: Lane, elapsed_s: float, activity: str) -> TrainingInfo | None:
    if node.plugin.name != "trainer":
        return None
    lease = lane.decision.state.plan.lease_of(node.transport.peer)
    if node.share < 1:
        activity = f"{activity} (trainer.share {node.share:g})"
    return TrainingInfo(stage=activity, samples=lease.samples if lease else 0, elapsed_s=elapsed_s)
