"""What the words of the status mean: for the screen, for --help, and for docs/operations.md."""

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

WORDS = (
    ("lag", "most delay of its tasks in 2 minutes: below 250 ms is well"),
    ("head", "the model certified last; promoted: how many so far"),
    ("best", "the best metric of the last 64 heights"),
    ("height", "what is decided next: who trains what, and any new head"),
    ("idle: waiting", "nobody is there to train: nothing happens until one comes"),
    ("steps", "train, propose, prevote, precommit: what is on is marked ◉"),
    ("2 of 4, quorum 3", "weight of the votes so far, of all votes, and what decides"),
    ("◐ ◕ ● ✗ ○", "a lease: training, announced, accepted, rejected, returned"),
    ("promoted", "an outcome: a new head. All others kept the old one:"),
    ("  idle", "nobody was there to train"),
    ("  empty", "no update was accepted"),
    ("  undecided", "the validators did not agree in time"),
    ("  blocked", "the merge was measurably worse: kept(blocked-by-canary)"),
    ("cohort 3 -1", "updates that were accepted, and that were not"),
    ("train+vote", "seconds to the last update, and from there to the decision"),
    ("● ○ peers", "linked, only known of; ↑ ↓ sent to it, received from it"),
    ("standing", "the score: full for no harm, halved by each harmful update"),
    ("ok, bad, out to", "updates delivered, harmful ones, height until it is out"),
)
"""In the order in which a screen has them. Each fits on a line of 80 columns, and all on 24 lines."""


def legend() -> Panel:
    """For a screen."""
    table = Table.grid(padding=(0, 2))
    for word, meaning in WORDS:
        table.add_row(Text(word, style="bold", no_wrap=True), Text(meaning))
    return Panel(
        table, title="what the words mean", title_align="left", border_style="bright_black"
    )


def explained() -> str:
    """For the end of a help text, which keeps these lines as they are."""
    lines = (f"{word:<16}  {meaning}" for word, meaning in WORDS)
    return "\b\n" + "\n".join(lines)
