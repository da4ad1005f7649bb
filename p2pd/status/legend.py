"""What the words of the status mean: for the screen, for --help, and for docs/operations.md."""

from collections.abc import Sequence

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

WORDS = (
    ("lag", "most delay of its tasks in 2 minutes: below 250 ms is well"),
    ("head", "the model certified last; promoted: how many so far"),
    ("epoch, samples", "of the data, and of all updates accepted so far"),
    ("0.90 ▁▃▇ 0.97", "the metric, newest on the right: lowest and highest level;"),
    ("", "what lies far off is cut to them; best: of 64 heights"),
    ("height", "what is decided next: who trains what, and any new head"),
    ("closes in", "when waiting for updates ends at the latest"),
    ("idle: waiting", "nobody is there to train: nothing happens until one comes"),
    ("steps", "train, propose, prevote, precommit: what is on is marked ◉"),
    ("round 0", "the first attempt to decide; another begins if it fails"),
    ("proposed by", "whose choice of updates the validators vote on"),
    ("2 of 4, quorum 3", "weight of the votes so far, of all votes, and what decides"),
    ("███┃··  ██▓█··", "the same as a bar: ┃ is the quorum, ▓ once it is reached"),
    ("◐ ◕ ● ✗ ○", "a lease: training, announced, accepted, rejected, returned"),
    ("176 beside it", "samples that were leased"),
    ("promoted", "an outcome: a new head. All others kept the old one:"),
    ("  idle", "nobody was there to train"),
    ("  empty", "no update was accepted"),
    ("  undecided", "the validators did not agree in time"),
    ("  blocked", "the merge was measurably worse: kept(blocked-by-canary)"),
    ("cohort 2 of 4 -1", "updates accepted, of how many leases if one brought none,"),
    ("", "and updates that were not accepted"),
    ("seconds 3+2+1", "to the last update; then waiting, checks and merge; then"),
    ("", "voting. One number: all of it, where no parts were seen"),
    ("● ○ peers", "linked, only known of; ↑ ↓ sent to it, received from it"),
    ("standing", "the score: full for no harm, halved by each harmful update"),
    ("ok missed bad", "updates delivered, leases without one, harmful updates"),
    ("out to", "height until it is out"),
    ("transfers", "models and updates on their way here, from how many peers"),
    ("heard", "signed objects that came in, by kind; refused, and why"),
)
"""In the order in which a screen has them. Each fits on a line of 80 columns; no word: the line before goes on."""
FRAME_LINES = 3
"""Of a page: its frame, and the line below."""


def pages(lines: int) -> Sequence[Panel]:
    """For a screen of so many lines, a line below each page included."""
    most = max(1, lines - FRAME_LINES)
    count = -(-len(WORDS) // most)
    size = -(-len(WORDS) // count)
    return [
        _page(WORDS[start : start + size], f"{start // size + 1} of {count}" if count > 1 else "")
        for start in range(0, len(WORDS), size)
    ]


def _page(words: Sequence[tuple[str, str]], which: str) -> Panel:
    table = Table.grid(padding=(0, 2))
    for word, meaning in words:
        table.add_row(Text(word, style="bold", no_wrap=True), Text(meaning))
    title = f"what the words mean  {which}".rstrip()
    return Panel(table, title=title, title_align="left", border_style="bright_black")


def explained() -> str:
    """For the end of a help text, which keeps these lines as they are."""
    lines = (f"{word:<16}  {meaning}" for word, meaning in WORDS)
    return "\b\n" + "\n".join(lines)
