"""Cases of the transport and of artifacts, between nodes as the daemon makes them. Seconds; MB are 10**6 bytes."""

from itertools import pairwise
from pathlib import Path

from p2pd.bench import soak
from p2pd.bench.children import Child
from p2pd.bench.places import MB, NODE, START_S, node_of, prepare, result_of
from p2pd.bench.suite import Options
from p2pd.bench.transfer_faults import killed_provider, slow_reader
from tests.faults.stated.seen import Seen, quiet

DATAGRAM_BYTES = 1200
OPTIONS = Options(quiet)
NARROW = "tests.faults.stated.narrow"
NARROW_BYTES_S = 5_000
SWITCH_MOST_S = 15.0


def slow_reading(directory: Path) -> Seen:
    """B1: 1 GiB offered to a reader of 2 MB/s."""
    seen = Seen()
    grown, longest, read = slow_reader(prepare(directory, 8 * MB), DATAGRAM_BYTES, OPTIONS)
    seen.note(f"the sender grew by {grown.value:.1f} MiB", right=grown.value < 64)
    seen.note(f"control took {1000 * longest.value:.0f} ms at most", right=longest.value < 1.0)
    seen.note(f"{read.value:.2f} MB/s were read", right=1.8 < read.value <= 2.1)
    return seen


def requests(directory: Path) -> Seen:
    """B6: 100,000 requests on one connection."""
    seen = Seen()
    answering, asking, answered = soak.run(OPTIONS)
    seen.note(f"{soak.REQUESTS:,} requests, {answered.value:.0f} a second", right=True)
    for side, row in (("answering", answering), ("asking", asking)):
        seen.note(f"the {side} side grew by {row.value:.2f} MB per 10,000", right=row.value < 1.0)
    return seen


def death(directory: Path) -> Seen:
    """C1: 100 MB from two providers, kill -9 of one at 50 %."""
    seen = Seen()
    pause, rest, wire = killed_provider(prepare(directory, 100 * MB), DATAGRAM_BYTES, OPTIONS)
    seen.note(f"the longest pause was {pause.value:.1f} s", right=pause.value < 10.0)
    seen.note(f"the rest took {rest.value:.1f} s", right=True)
    seen.note(f"{wire.ratio or 0:.2f} times the bytes, verified", right=0 < (wire.ratio or 0) < 1.2)
    return seen


def slow_provider(directory: Path) -> Seen:
    """C3: one provider behind a line of 5 kB/s, one that is fast, neither used before."""
    seen = Seen()
    place, size = prepare(directory, 20 * MB), str(DATAGRAM_BYTES)
    with (
        Child(NODE, "serve", place.origin, size) as slow,
        Child(NODE, "serve", place.copy(), size) as fast,
    ):
        peer, _, address = node_of(slow).partition("@")
        with Child(NARROW, str(NARROW_BYTES_S), address) as line:
            behind = f"{peer}@127.0.0.1:{line.hear(START_S)['port']}"
            nodes = (behind, node_of(fast))
            fetch = ("fetch", place.fresh("fetcher"), size, place.artifact.hex(), *nodes)
            with Child(NODE, *fetch) as fetcher:
                result = result_of(fetcher)
            line.tell("how much")
            carried = line.hear(START_S)["carried"]
    times_s = [0.0, *result["times_s"]]
    pause_s = max(after_s - before_s for before_s, after_s in pairwise(times_s))
    total_s = result["seconds"]
    seen.note(f"the slow one gave {carried / 1000:.0f} kB", right=carried > 0)
    seen.note(f"the longest pause was {pause_s:.1f} s", right=pause_s < SWITCH_MOST_S)
    seen.note(f"20 MB in {total_s:.1f} s", right=total_s < SWITCH_MOST_S)
    return seen
