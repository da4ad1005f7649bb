"""A snapshot as a screen: pure, and for any width from 80 columns on.

One, two or three columns of panels, as there is room. Colours carry nothing that words do not.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from p2pd.core.wording import counted, size
from p2pd.status.decisions import decisions_table
from p2pd.status.fitting import FirstThatFits, table
from p2pd.status.pictures import DIM, bar, clock, figure, spark
from p2pd.status.snapshot import (
    LeaseInfo,
    PeerInfo,
    RevisionInfo,
    Snapshot,
    StandingInfo,
    TrainingInfo,
    VotingInfo,
)

SHORT, SHORTER = 10, 6
"""Hex digits of an id on screen."""
TWO_COLUMNS_AT, THREE_COLUMNS_AT = 100, 160
ROWS = 8
"""Of each table; the rest is counted."""
PANELS = 6
"""Kinds of them below the progress, in the order of a narrow screen."""
SCORE_FULL = 1024
LATE_S = 0.25
"""An event loop that comes so late is worth a look."""

LEASE_LOOK = {
    "training": ("◐", "cyan"),
    "announced": ("◕", "blue"),
    "accepted": ("●", "green"),
    "rejected": ("✗", "red"),
    "released": ("○", "bright_black"),
}
STEPS = ("train", "propose", "prevote", "precommit")
NOWHERE = -1
"""Nobody trains, or the revision is finished."""
BAR_COLUMNS = 14
SPARK_LEAST = 8
FRAME_COLUMNS = 4
"""Of a panel, at its sides."""


def view(
    snapshot: Snapshot, columns: int, rows: int = ROWS, panels: int = PANELS
) -> RenderableType:
    """The whole screen, with at most so many rows in each table, and so many kinds of panels."""
    kinds: list[list[RenderableType]] = [
        [_height_panel(revision, snapshot, rows) for revision in snapshot.revisions],
        [_decisions_panel(revision, rows) for revision in snapshot.revisions],
        [_panel(_peers_title(snapshot.peers), _peers(snapshot.peers, rows))],
        _standing_panels(snapshot, rows),
        _transfer_panels(snapshot, rows),
        _printed_panels(snapshot, rows),
    ]
    kinds[panels:] = [[] for _ in kinds[panels:]]
    heights, decisions, peers, standing, transfers, printed = kinds
    if columns >= THREE_COLUMNS_AT:
        stacks = [heights, [*decisions, *transfers, *printed], [*peers, *standing]]
    elif columns >= TWO_COLUMNS_AT:
        stacks = [[*heights, *peers], [*decisions, *standing, *transfers, *printed]]
    else:
        stacks = [[*heights, *decisions, *peers, *standing, *transfers, *printed]]
    progress = [_progress_panel(revision, columns) for revision in snapshot.revisions]
    if not progress:
        progress = [_panel("revisions", Text("none is served here", style=DIM))]
    return Group(_head(snapshot), *progress, _side_by_side(stacks), foot(snapshot))


def _side_by_side(stacks: Sequence[Sequence[RenderableType]]) -> RenderableType:
    filled = [stack for stack in stacks if stack]
    grid = Table.grid(expand=True)
    for _ in filled:
        grid.add_column(ratio=1)
    grid.add_row(*(Group(*stack) for stack in filled))
    return grid


def _panel(title: str, content: RenderableType) -> Panel:
    # A Text: what others named must not be read as markup.
    name = Text(title, style="bold")
    return Panel(content, title=name, title_align="left", border_style=DIM, padding=(0, 1))


# The node


def _head(snapshot: Snapshot) -> RenderableType:
    node = snapshot.node
    line = Text()
    line.append(" p2pd ", style="bold black on cyan")
    line.append(f" {node.name or node.peer[:SHORT]}", style="bold")
    line.append(f"  {node.role}", style="cyan")
    if snapshot.devices:
        line.append(f" on {snapshot.devices}", style=DIM)
    line.append(f"  of {node.network}")
    line.append(f"  {node.address or 'no address'}", style=DIM)
    line.append(f"  up {clock(node.uptime_s)}", style=DIM)
    late = node.lag_most_s >= LATE_S
    line.append(f"  lag {node.lag_most_s * 1000:.0f} ms", style="yellow" if late else DIM)
    return Group(line, *(Text(f" ! {what}", style="bold yellow") for what in node.degraded))


def foot(snapshot: Snapshot) -> Text:
    """What has come in, and what of it was refused."""
    line = Text(style=DIM, overflow="ellipsis", no_wrap=True)
    heard = ", ".join(f"{one.count:,} {one.what}s" for one in snapshot.heard)
    line.append(f" heard {heard or 'nothing yet'}")
    if snapshot.refused:
        refused = ", ".join(f"{one.count:,} {one.what}" for one in snapshot.refused)
        line.append(f"   refused: {refused}", style="yellow")
    return line


# A revision


def _progress_panel(revision: RevisionInfo, columns: int) -> RenderableType:
    title = f"{revision.study} / {revision.experiment} / {revision.name}"
    return _panel(f"{title}  {revision.revision[:SHORT]}", _progress(revision, columns))


def _height_panel(revision: RevisionInfo, snapshot: Snapshot, rows: int) -> RenderableType:
    window: list[RenderableType] = [_window_line(revision)]
    over = revision.plan == "finished"
    if revision.voting is not None and not over:
        window.append(_voting(revision.voting, revision.plan))
    if revision.training is not None and not over:
        window.append(_training(revision.training))
    if snapshot.working:
        window.append(Text.assemble(("workload   ", DIM), (snapshot.working, "cyan")))
    if revision.leases:
        window.append(_leases(revision.leases, snapshot.node.peer, rows))
    title = "the end" if over else f"height {revision.height + 1}"
    return _panel(title, Group(*window))


def _decisions_panel(revision: RevisionInfo, rows: int) -> RenderableType:
    return _panel("decisions", decisions_table(revision, rows))


def _progress(revision: RevisionInfo, columns: int) -> RenderableType:
    line = Text()
    line.append("head ", style=DIM)
    line.append(revision.head[:SHORT], style="bold")
    promoted = f"{revision.heads} promoted" if revision.heads else "genesis: none promoted yet"
    line.append(f"   {promoted}", style="green")
    if revision.end_heads:
        line.append(f" of {revision.end_heads}", style=DIM)
    last = f" of {revision.end_epochs}" if revision.end_epochs else ""
    line.append(f"   epoch {revision.epoch}{last}   {counted(revision.samples, 'sample', ',')}")
    if revision.origin:
        line.append(f"   goes on from {revision.origin}", style=DIM)
    if all(decision.metric is None for decision in revision.decisions):
        return Group(line, *_measured(revision))
    return Group(line, _curve(revision, columns - FRAME_COLUMNS))


def _curve(revision: RevisionInfo, columns: int) -> Text:
    """The newest measurement, the curve between the values that its lowest and highest level mean, the best."""
    metrics = [d.metric for d in revision.decisions if d.metric is not None]
    best = max(metrics) if revision.higher_is_better else min(metrics)
    curve = Text()
    curve.append(f"{revision.metric} ", style=DIM)
    curve.append(figure(metrics[-1]), style="bold green")
    last = f"   best {figure(best)}"
    if revision.target is not None:
        last += f"   target {figure(revision.target)}"
    room = columns - curve.cell_len - len(last) - len("   000000  000000")
    drawn = spark(metrics, max(SPARK_LEAST, room))
    curve.append(f"   {figure(drawn.low)} ", style=DIM)
    curve.append(drawn.levels, style="green")
    curve.append(f" {figure(drawn.high)}", style=DIM)
    curve.append(last, style=DIM)
    return curve


def _measured(revision: RevisionInfo) -> list[RenderableType]:
    """Where the decisions shown have no measurement: the head has not changed for longer."""
    if revision.measured is None:
        return []
    line = Text()
    line.append(f"{revision.metric} ", style=DIM)
    line.append(f"{figure(revision.measured.metric)} ", style="bold green")
    line.append(f"measured at height {revision.measured.height}", style=DIM)
    return [line]


def _window_line(revision: RevisionInfo) -> Text:
    if revision.plan == "finished":
        return Text("finished: the revision has come to its end", style="bold green")
    if revision.plan == "idle":
        return Text("idle: waiting for a trainer", style="yellow")
    line = Text()
    if revision.closes_in_s is None or not revision.deadline_s:
        line.append("window open", style=DIM)
        return line
    left = max(0.0, revision.closes_in_s)
    line.append("closes in ", style=DIM)
    line.append(f"{clock(left)} ", style="bold")
    line.append(bar(1 - left / revision.deadline_s, BAR_COLUMNS), style="cyan")
    return line


def _voting(voting: VotingInfo, plan: str) -> RenderableType:
    """The way of a height: which steps are behind it, and how much weight the votes have."""
    steps = Text()
    at = NOWHERE
    if plan == "running" or (plan == "idle" and voting.step != "idle"):
        at = STEPS.index({"idle": "train"}.get(voting.step, voting.step))
    for number, step in enumerate(STEPS):
        mark, style = ("●", "green") if number < at else ("○", DIM)
        if number == at:
            mark, style = "◉", "bold cyan"
        steps.append(f"{mark} {step}", style=style)
        steps.append("  " if step != STEPS[-1] else "")
    lines: list[RenderableType] = [steps]
    if at > 0:
        lines.append(
            Text(f"round {voting.round}, proposed by {voting.proposer[:SHORT]}", style=DIM)
        )
        lines.append(_weight("prevotes  ", voting.prevoted, voting))
        lines.append(_weight("precommits", voting.precommitted, voting))
    if voting.listening:
        lines.append(Text("listening before the first vote after a restart", style="yellow"))
    if voting.muted:
        lines.append(Text("silent: this key voted elsewhere at this height", style="bold red"))
    return Group(*lines)


def _weight(what: str, weight: int, voting: VotingInfo) -> Text:
    enough = weight >= voting.quorum
    line = Text(f"{what} ", style=DIM)
    line.append(
        bar(weight / voting.weight, BAR_COLUMNS, mark=voting.quorum / voting.weight),
        style="green" if enough else "cyan",
    )
    line.append(f" {weight} of {voting.weight}", style="bold" if enough else "")
    line.append(f", quorum {voting.quorum}", style=DIM)
    return line


def _training(training: TrainingInfo) -> Text:
    line = Text("this node  ", style=DIM, no_wrap=True, overflow="ellipsis")
    line.append(training.stage, style="cyan")
    line.append(f"  {clock(training.elapsed_s)}", style=DIM)
    return line


def _leases(leases: Sequence[LeaseInfo], me: str, rows: int) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column()
    table.add_column(justify="right")
    for lease in leases[:rows]:
        mark, style = LEASE_LOOK.get(lease.state, ("?", ""))
        name = Text(lease.peer[:SHORT], style="bold" if lease.peer == me else "")
        table.add_row(
            Text(f"{mark} {lease.state}", style=style), name, Text(f"{lease.samples:,}", style=DIM)
        )
    return Group(table, *_more(len(leases), rows))


def _more(count: int, rows: int) -> list[RenderableType]:
    return [Text(f"and {count - rows} more", style=DIM)] if count > rows else []


# The network


def _peers_title(peers: Sequence[PeerInfo]) -> str:
    linked = sum(peer.linked for peer in peers)
    sent = sum(peer.sent_bytes for peer in peers)
    received = sum(peer.received_bytes for peer in peers)
    return f"peers  {linked} linked  ↑{size(sent)} ↓{size(received)}"


def _peers(peers: Sequence[PeerInfo], rows: int) -> RenderableType:
    if not peers:
        return Text("nobody yet", style="yellow")
    shown = sorted(peers, key=lambda peer: (not peer.linked, peer.peer))[:rows]
    options = [
        table([[*_peer(peer, digits), *_rates(peer)] for peer in shown], right=(2, 3))
        for digits in (SHORT, SHORTER)
    ]
    barest = table([_peer(peer, SHORT) for peer in shown], right=())
    return Group(FirstThatFits([*options, barest]), *_more(len(peers), rows))


def _peer(peer: PeerInfo, digits: int) -> list[Text]:
    name = Text(f"{'●' if peer.linked else '○'} {peer.peer[:digits]}")
    name.style = "" if peer.linked else DIM
    roles = Text(",".join(peer.roles), style="cyan" if peer.linked else DIM)
    roles.overflow = "ellipsis"
    return [name, roles]


def _rates(peer: PeerInfo) -> list[Text]:
    if not peer.linked:
        return [Text(), Text()]
    rates = ("↑", peer.sent_bytes_s), ("↓", peer.received_bytes_s)
    return [Text(f"{way}{size(round(rate))}/s", style=DIM) for way, rate in rates]


def _standing_panels(snapshot: Snapshot, rows: int) -> list[RenderableType]:
    return [
        _panel("standing", _standing(revision.standing, revision.height, rows))
        for revision in snapshot.revisions
        if revision.standing
    ]


def _standing(standing: Sequence[StandingInfo], height: int, rows: int) -> RenderableType:
    shown = standing[:rows]
    options = [
        table([_standing_row(row, height, columns) for row in shown], right=(2, 3), expand=False)
        for columns in (8, 4)
    ]
    return Group(FirstThatFits(options), *_more(len(standing), rows))


def _standing_row(row: StandingInfo, height: int, columns: int) -> list[Text]:
    away = row.quarantined_until > height
    return [
        Text(row.peer[:SHORT]),
        Text(bar(row.score / SCORE_FULL, columns), style="red" if away else "green"),
        Text(f"{row.delivered} ok", style="green"),
        Text(f"{row.missed} missed" if row.missed else "", style="yellow"),
        Text(f"{row.rejected} bad" if row.rejected else "", style="red"),
        Text(f"out to {row.quarantined_until}" if away else "", style="bold red"),
    ]


def _transfer_panels(snapshot: Snapshot, rows: int) -> list[RenderableType]:
    return [_panel("transfers", _transfers(snapshot, rows))] if snapshot.transfers else []


def _transfers(snapshot: Snapshot, rows: int) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for transfer in snapshot.transfers[:rows]:
        whole = transfer.size_bytes
        done = f"{size(transfer.done_bytes)} of {size(whole)}" if whole else "asking"
        table.add_row(
            Text(transfer.artifact[:SHORT]),
            Text(bar(transfer.done_bytes / whole if whole else 0.0, 8), style="cyan"),
            Text(done),
            Text(f"from {transfer.providers}", style=DIM),
        )
    return Group(table, *_more(len(snapshot.transfers), rows))


def _printed_panels(snapshot: Snapshot, rows: int) -> list[RenderableType]:
    """The end of what the workload has printed."""
    if not snapshot.printed:
        return []
    text = Text("\n".join(snapshot.printed[-rows:]), no_wrap=True, overflow="ellipsis")
    return [_panel("the workload prints", text)]
