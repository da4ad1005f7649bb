"""Tables and curves of what scripts.convergence found: `python -m scripts.convergence_page --docs docs`.

Prints the tables in Markdown, and draws docs/convergence-*.png. Digits are means over seeds.
"""

import json
from argparse import ArgumentParser
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

Points = list[dict[str, Any]]
TASKS = {"digits": "accuracy", "mnist": "accuracy", "bytegpt": "bits per byte"}
"""And what is measured of each."""
TRAINERS = (1, 4, 8)
AHEAD = 4
TARGET = 0.97
COLOURS = {1: "tab:green", 4: "tab:blue", 8: "tab:orange"}
LEFT_OUT = 3
"""Points at the beginning that would set the scale of a curve."""


def main() -> None:
    parser = ArgumentParser(prog="scripts.convergence_page")
    parser.add_argument("--results", type=Path, default=Path("local/convergence"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    print(_against_central(options.results), end="\n\n")
    print(_ahead(options.results), end="\n\n")
    print(_peers(options.results))
    for task, metric in TASKS.items():
        _draw_task(options.results, options.docs, task, metric)
    _draw_peers(options.results, options.docs)


def runs(results: Path, name: str, ending: str = "") -> list[Points]:
    """Of all seeds."""
    paths = sorted(results.glob(f"{name}-seed*{ending}.jsonl"))
    return [read(path) for path in paths if path.stem.endswith("central") == bool(ending)]


def read(path: Path) -> Points:
    return [json.loads(line) for line in path.read_text().splitlines()]


def last(found: list[Points], key: str) -> float:
    return mean(float(points[-1][key]) for points in found)


def _against_central(results: Path) -> str:
    lines = [
        "| task | trainers | heads | samples | fleet | central | difference | loss: fleet | central |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        for trainers in TRAINERS:
            fleet = runs(results, f"{task}-{trainers}")
            central = runs(results, f"{task}-{trainers}", "-central")
            a, b = last(fleet, "metric"), last(central, "metric")
            figures = (f"{a:.4f}", f"{b:.4f}", _difference(task, a, b))
            losses = (f"{last(one, 'loss'):.4f}" for one in (fleet, central))
            counts = (str(trainers), f"{last(fleet, 'heads'):.0f}", f"{last(fleet, 'samples'):.0f}")
            lines.append(f"| {' | '.join((task, *counts, *figures, *losses))} |")
    return "\n".join(lines)


def _difference(task: str, fleet: float, central: float) -> str:
    if TASKS[task] == "accuracy":
        return f"{100 * (fleet - central):+.2f} points"
    return f"{100 * (fleet / central - 1):+.2f} %"


def _ahead(results: Path) -> str:
    lines = [
        "| task | trainers | metric: lookahead 0 | 1 | loss: lookahead 0 | 1 | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        waiting, ahead = runs(results, f"{task}-{AHEAD}"), runs(results, f"{task}-{AHEAD}-ahead")
        figures = [
            f"{last(one, key):.4f}" for key in ("metric", "loss") for one in (waiting, ahead)
        ]
        more = 100 * (last(ahead, "loss") / last(waiting, "loss") - 1)
        lines.append(f"| {task} | {AHEAD} | {' | '.join(figures)} | {more:+.1f} % |")
    return "\n".join(lines)


def _peers(results: Path) -> str:
    lines = ["| model | rounds to 97 % | accuracy then | after all rounds |", "|---|---|---|---|"]
    for model in ("mlp", "cnn"):
        points = read(results / f"peers-{model}.jsonl")
        first = next(point for point in points if point["metric"] >= TARGET)
        end = f"{points[-1]['metric']:.4f} after {points[-1]['heads']}"
        lines.append(f"| {model} | {first['heads']} | {first['metric']:.4f} | {end} |")
    return "\n".join(lines)


def _draw_task(results: Path, docs: Path, task: str, metric: str) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes: Axes = figure.subplots()
    for trainers in TRAINERS:
        name, colour = f"{task}-{trainers}", COLOURS[trainers]
        one = "one trainer" if trainers == 1 else f"{trainers} trainers"
        _plot(axes, runs(results, name), colour, "-", one)
        _plot(axes, runs(results, name, "-central"), colour, "--", f"central, batch x {trainers}")
    _finish(figure, axes, docs / f"convergence-{task}.png", ("samples", metric, task))


def _draw_peers(results: Path, docs: Path) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes: Axes = figure.subplots()
    for model, colour in (("mlp", "tab:blue"), ("cnn", "tab:orange")):
        points = read(results / f"peers-{model}.jsonl")[LEFT_OUT:]
        rounds, metric = [[point[key] for point in points] for key in ("heads", "metric")]
        axes.plot(rounds, metric, color=colour, marker="o", label=model)
    axes.axhline(TARGET, color="grey", linestyle=":")
    titles = ("rounds of 20 local steps", "accuracy", "MNIST, 4 trainers, mean of the weights")
    _finish(figure, axes, docs / "convergence-peers.png", titles)


def _plot(axes: Axes, found: list[Points], colour: str, style: str, label: str) -> None:
    """The mean over seeds, whose heads come after the same numbers of samples."""
    rows = list(zip(*found, strict=True))[LEFT_OUT:]
    samples = [mean(point["samples"] for point in row) for row in rows]
    metric = [mean(point["metric"] for point in row) for row in rows]
    axes.plot(samples, metric, color=colour, linestyle=style, label=label)


def _finish(figure: Figure, axes: Axes, path: Path, titles: tuple[str, str, str]) -> None:
    axes.set(xlabel=titles[0], ylabel=titles[1], title=titles[2])
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
