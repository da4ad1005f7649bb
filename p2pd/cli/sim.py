"""`p2pd sim`."""

from typing import Annotated

import typer

from p2pd.cli.output import AsJson, say, say_json, warn
from p2pd.sim.breaks import Break
from p2pd.sim.suite import FaultSet, FleetShape, SeedResult, SuiteResult, run_suite

LIST = "list"
"""In place of a name."""


def command(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many fleets to run.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first one.")] = 0,
    windows: Annotated[int, typer.Option(min=1, help="Heads that each fleet promotes.")] = 10,
    faults: Annotated[FaultSet, typer.Option(help="What goes wrong.")] = FaultSet.ALL,
    broken: Annotated[
        str | None,
        typer.Option(
            "--break",
            metavar="NAME|list",
            help="Defence to switch off: the attack must be noticed. list prints the names.",
        ),
    ] = None,
    in_json: AsJson = False,
) -> None:
    if broken == LIST:
        say("\n".join(one.value for one in Break))
        return
    shape = FleetShape(windows=windows, faults=faults)
    if broken is not None:
        shape = shape.attacked(_named(broken))
    result = run_suite(range(seed, seed + seeds), shape, lambda one: _report(one, shape))
    if in_json:
        say_json(result.to_json())
    else:
        say(summary(result))
    raise typer.Exit(0 if result.ok else 1)


def _named(name: str) -> Break:
    try:
        return Break(name)
    except ValueError:
        raise typer.BadParameter(
            f"there is no defence {name}: p2pd sim --break list prints them"
        ) from None


def _report(result: SeedResult, shape: FleetShape) -> None:
    for line in findings(result, shape):
        warn(line)


def findings(result: SeedResult, shape: FleetShape) -> list[str]:
    """What a seed broke, and the command that shows it again."""
    again = f"p2pd sim --seed {result.seed} --windows {shape.windows} --faults {shape.faults.value}"
    if shape.broken is not None:
        again += f" --break {shape.broken.value}"
    return [
        f"seed {found.seed}, height {found.height}: {found.invariant}: {found.what}  ({again})"
        for found in result.violations
    ]


def summary(result: SuiteResult) -> str:
    """One line: what was asked, what came out."""
    if result.found_after_seeds is not None:
        verdict = f"the broken defence was noticed after {result.found_after_seeds} fleets"
    elif result.violations:
        verdict = f"{len(result.violations)} violations"
    else:
        verdict = "all invariants held" if result.ok else "the broken defence was not noticed"
    return (
        f"{verdict}: {result.seeds} fleets, {result.decisions} decisions, "
        f"{result.seconds:.1f} s, trace {result.trace[:16]}"
    )
