"""`p2pd sim`."""

from dataclasses import dataclass, field
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, say, say_json, warn
from p2pd.core.wording import counted
from p2pd.errors import UsageError
from p2pd.sim.breaks import Break
from p2pd.sim.replay import arguments, narrowed, with_set, with_work
from p2pd.sim.shape import REVISIONS_MOST, Drawn, Heads, Outer, RunEnds
from p2pd.sim.suite import (
    FaultSet,
    FleetShape,
    SeedResult,
    SuiteResult,
    run_suite,
    shrunk,
)

LIST = "list"
"""In place of a name."""
EPILOG = """Faults (--faults):

\b
network    links lose, delay, double and reorder; partitions
crash      nodes die at any step, and come back
disk       no room for a while, or slow writes
clock      wall clocks jump
identity   old backups, copied keys
liars      nodes of every role that lie
all        all of these
none       nothing goes wrong

Defences that --break switches off, one at a time:

\b
quorum     only the signed validators count, not whoever is visible
lock       a validator stays with what it precommitted to
counting   a vote counts only if the quorum that it claims exists
judgement  what has a quorum already is not judged once more
lease      an update claims no more than its lease
replay     an update counts in its own window only
arrival    updates are merged in one order, however they arrive
durable    a vote is stored before it is sent
early      a proposal waits until one's own window is over
signatures all that a proposal carries is verified
term       what is signed names the term
evidence   who is caught lying is suspended

docs/simulation.md and docs/simulated-attacks.md say more.
"""
Validators = Annotated[
    str | None,
    typer.Option(
        "--set",
        metavar="WEIGHTS:QUORUM",
        help="The validators of every fleet, 2,1,1:3 say; otherwise each seed draws its own.",
    ),
]
Broken = Annotated[
    str | None,
    typer.Option(
        "--break",
        metavar="NAME|list",
        help="Defence to switch off: the attack must be noticed. list prints the names, see below.",
    ),
]

Revisions = Annotated[
    int | None,
    typer.Option(
        min=1, max=REVISIONS_MOST, metavar="N", help="Otherwise each seed draws how many."
    ),
]
Ends = Annotated[
    RunEnds | None,
    typer.Option(
        metavar="NAME",
        help="Of every run: heads, extended (and halfway at first), target; otherwise drawn.",
    ),
]

OfHeads = Annotated[
    Heads | None,
    typer.Option(
        metavar="CODEC", help="Of every revision: f32, or int8 steps; otherwise each seed draws it."
    ),
]


def command(  # noqa: PLR0913 - one parameter per option
    *,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many fleets to run.")] = 1,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the first one.")] = 0,
    windows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Heads that each fleet promotes.")
    ] = 10,
    faults: Annotated[
        FaultSet, typer.Option(metavar="KIND", help="What goes wrong.")
    ] = FaultSet.ALL,
    validators: Validators = None,
    lookahead: Annotated[
        int | None,
        typer.Option(
            min=0, max=1, metavar="N", help="Of every revision; otherwise each seed draws it."
        ),
    ] = None,
    outer: Annotated[
        Outer | None,
        typer.Option(
            metavar="NAME", help="Outer optimizer of every revision; otherwise each seed draws it."
        ),
    ] = None,
    heads: OfHeads = None,
    revisions: Revisions = None,
    ends: Ends = None,
    sharded: Annotated[
        bool, typer.Option("--sharded", help="The data of every revision come with its leases.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(metavar="PLACES", help="Of the faults drawn, those that happen: 3,17 say."),
    ] = None,
    without: Annotated[
        str, typer.Option(metavar="NAMES", help="Nodes that never start: trainer2,viewer1 say.")
    ] = "",
    broken: Broken = None,
    in_json: AsJson = False,
) -> None:
    if broken == LIST:
        say("\n".join(one.value for one in Break))
        return
    shape = FleetShape(windows=windows, faults=faults, drawn=frozenset(Drawn), sharded=sharded)
    if validators is not None:
        shape = with_set(shape, validators)
    shape = with_work(shape, lookahead, outer, heads, revisions, ends)
    shape = narrowed(shape, only, without)
    if broken is not None:
        shape = shape.attacked(_named(broken))
    reporter = Reporter(shape)
    result = run_suite(range(seed, seed + seeds), shape, reporter.report)
    if in_json:
        say_json({**result.to_json(), "replay": reporter.commands})
    else:
        say(summary(result))
    raise typer.Exit(0 if result.ok else 1)


def _named(name: str) -> Break:
    try:
        return Break(name)
    except ValueError:
        raise UsageError(
            f"--break {name:.60}: there is no such defence: p2pd sim --break list prints them"
        ) from None


SHRUNK_MOST = 2
"""Failing seeds that are made smaller: it takes minutes."""


@dataclass(slots=True)
class Reporter:
    """Says what each seed broke, and with which command to see it again, in a smaller fleet where one was found."""

    shape: FleetShape
    commands: list[str] = field(default_factory=list)

    def report(self, result: SeedResult) -> None:
        if not result.violations:
            return
        shape = self.shape
        if shape.broken is None and len(self.commands) < SHRUNK_MOST:
            shape = shrunk(shape, result.violations[0])
        self.commands.append(f"p2pd sim {arguments(shape, result.seed)}")
        for line in findings(result, self.commands[-1]):
            warn(line)


def findings(result: SeedResult, again: str) -> list[str]:
    """What a seed broke, and the command that shows it again."""
    return [
        f"seed {found.seed}, height {found.height}: {found.invariant}: {found.what}  ({again})"
        for found in result.violations
    ]


def summary(result: SuiteResult) -> str:
    """One line: what was asked, what came out."""
    if result.found_after_seeds is not None:
        verdict = (
            f"the broken defence was noticed after {counted(result.found_after_seeds, 'fleet')}"
        )
    elif result.violations:
        verdict = counted(len(result.violations), "violation")
    else:
        verdict = "all invariants held" if result.ok else "the broken defence was not noticed"
    return (
        f"{verdict}: {counted(result.seeds, 'fleet')}, {counted(result.decisions, 'decision')}, "
        f"the longest wait after the faults {result.liveness.longest_s:.0f} of "
        f"{result.liveness.within_s:.0f} virtual s, {result.seconds:.1f} s, "
        f"trace {result.trace[:16]}"
    )
