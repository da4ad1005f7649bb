"""What people see of a demo when it is over: heights, a curve, where the files are."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from p2pd.daemon.outcome import HeightRow, Outcome
from p2pd.io.durable import storing

BARS = "▁▂▃▄▅▆▇█"
CURVE_ROWS = 8
CURVE_WIDTH = 4
"""Columns per promoted head."""

Say = Callable[[str], None]


def show(outcome: Outcome, say: Say, *, in_json: bool) -> None:
    """With in_json, standard output gets one line, and all else goes where say writes."""
    drawn = draw_curve(outcome.heights, outcome.central_accuracy, outcome.directory)
    console = Console(file=sys.stderr if in_json else sys.stdout, highlight=False)
    console.print(heights_table(outcome.heights))
    for line in text_curve(outcome.heights):
        say(line)
    say(
        f"accuracy {outcome.accuracy:.3f}, alone on as many samples {outcome.central_accuracy:.3f}; "
        f"{len(outcome.nodes)} nodes {'agree' if outcome.agree else 'DISAGREE'} on head "
        f"{outcome.head[:10]} at height {outcome.height}; {outcome.seconds:.1f} s"
    )
    say(f"files in {outcome.directory}" + (f", curve in {drawn}" if drawn else ""))
    if not outcome.ok:
        sys.stderr.write(f"p2pd: the demo failed: {outcome.why}\n")
    result = outcome.directory / "result.json"
    with storing(result):
        result.write_text(json.dumps(outcome.to_json()) + "\n")
    if in_json:
        sys.stdout.write(json.dumps(outcome.to_json()) + "\n")
        sys.stdout.flush()


def heights_table(rows: Sequence[HeightRow]) -> Table:
    table = Table(title="heights", title_justify="left")
    for column in (
        "height",
        "outcome",
        "accepted",
        "rejected",
        "accuracy",
        "train s",
        "overhead s",
    ):
        table.add_column(column, justify="left" if column == "outcome" else "right")
    for row in rows:
        table.add_row(
            str(row.height),
            row.outcome,
            str(row.accepted),
            str(row.rejected),
            _figure(row.accuracy, 3),
            _figure(row.train_s, 2),
            _figure(row.overhead_s, 2),
        )
    return table


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _measured(rows: Sequence[HeightRow]) -> list[tuple[int, float]]:
    return [(row.height, row.accuracy) for row in rows if row.accuracy is not None]


def text_curve(rows: Sequence[HeightRow]) -> list[str]:
    """The accuracy over heights as lines of text, the scale on the left."""
    points = _measured(rows)
    if not points:
        return []
    low = min(value for _, value in points)
    span = max(value for _, value in points) - low or 1.0
    lines = []
    for level in reversed(range(CURVE_ROWS)):
        cells = ""
        for _, value in points:
            fill = (value - low) / span * (CURVE_ROWS - 1) + 1 / len(BARS) - level
            index = min(len(BARS), max(0, round(fill * len(BARS))))
            cells += (BARS[index - 1] * (CURVE_WIDTH - 1) if index else "   ") + " "
        lines.append(f"{low + span * level / (CURVE_ROWS - 1):6.3f} ┤{cells}")
    heights = "".join(f"{height:<{CURVE_WIDTH}}" for height, _ in points)
    return ["accuracy", *lines, f"       └{'─' * CURVE_WIDTH * len(points)}", f"        {heights}"]


def draw_curve(rows: Sequence[HeightRow], central: float, directory: Path) -> Path | None:
    """accuracy.png in directory; None where the extra `demo`, which draws it, is not installed."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - takes a second, and is optional
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415
    except ImportError:
        return None
    points = _measured(rows)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([h for h, _ in points], [v for _, v in points], marker="o", label="certified heads")
    axes.axhline(central, color="grey", linestyle="--", label="alone, as many samples")
    axes.set(xlabel="height", ylabel="accuracy", title="Accuracy of certified heads")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend()
    path = directory / "accuracy.png"
    figure.savefig(path, dpi=120)
    return path
