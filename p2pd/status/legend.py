"""What the words of the status mean: for the screen, for --help, and for docs/operations.md."""

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

WORDS = (
    (
        "lag",
        "how late the node came to its own tasks at most, in two minutes: below 250 ms is well",
    ),
    ("head", "the model that a quorum certified last; promoted: how many there were so far"),
    ("best", "the best metric of those that the curve shows: the last 64 heights"),
    ("height", "what is decided next: who trains what, and whether a new head comes of it"),
    ("idle: waiting", "nobody is there to train, so nothing happens until a trainer comes"),
    ("steps", "train, propose, prevote, precommit: the steps to a decision; the bright one is on"),
    (
        "2 of 4, quorum 3",
        "weight of the votes so far, of all validators' votes, and how much decides",
    ),
    ("◐ ◕ ● ✗ ○", "a lease: in training, update announced, accepted, rejected, given back"),
    ("promoted", "an outcome: there was a new head. The other outcomes kept the old one:"),
    ("  idle", "nobody was there to train: kept(idle) in `p2pd heads list`; so with the others"),
    ("  empty", "no update was accepted"),
    ("  undecided", "the validators did not agree in time"),
    ("  blocked", "the merged model was measurably worse: kept(blocked-by-canary)"),
    ("cohort 3 -1", "updates of the height that were accepted, and that were not"),
    ("train+vote", "seconds until the last update was announced, and from there to the decision"),
    ("● ○ peers", "linked, and only known of; ↑ ↓ sent to it and received from it"),
    ("standing", "the bar is the score: full for who did no harm, halved by each harmful update"),
    (
        "ok, bad, out to",
        "updates delivered, harmful ones, and the height until which the peer is left out",
    ),
)
"""In the order in which a screen has them."""


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
