"""A transfer whose provider is killed, and one whose reader is slow. Seconds; MB are 10**6 bytes."""

from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter

from p2pd.bench.children import Child
from p2pd.bench.places import LIMIT_S, MB, NODE, START_S, Place, node_of, result_of
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options

READER_BYTES_S = 2 * MB
OFFERED_BYTES = 2**30
WATCH_S = 30.0
REPORT_S = 5.0
"""The reader says so often that it lives."""


def killed_provider(place: Place, datagram_bytes: int, options: Options) -> Sequence[Row]:
    """Two nodes provide; one is killed when half is here."""
    size = str(datagram_bytes)
    with (
        Child(NODE, "serve", place.origin, size) as doomed,
        Child(NODE, "serve", place.copy(), size) as other,
    ):
        nodes = (node_of(doomed), node_of(other))
        fetch = ("fetch", place.fresh("fetcher"), size, place.artifact.hex(), *nodes)
        with Child(NODE, *fetch) as fetcher:
            half = fetcher.hear(LIMIT_S)
            doomed.kill()
            killed = perf_counter()
            result = result_of(fetcher)
            rest_s = perf_counter() - killed
    times_s = [half["half_s"], *(time_s for time_s in result["times_s"] if time_s > half["half_s"])]
    pause_s = max(after_s - before_s for before_s, after_s in pairwise(times_s))
    options.say(f"a provider killed at 50 %: the rest came in {rest_s:.1f} s")
    name = "provider killed at 50 %"
    return [
        Row(f"{name}, longest pause", pause_s, "s"),
        Row(f"{name}, the rest", rest_s, "s", half["half_s"], "the first half, from two providers"),
        Row(
            f"{name}, received on all links",
            result["wire_bytes"] / MB,
            "MB",
            place.size_bytes / MB,
            "the artifact",
        ),
    ]


def slow_reader(
    place: Place, datagram_bytes: int, options: Options, watch_s: float = WATCH_S
) -> Sequence[Row]:
    """One response of 1 GiB and as many chunks as may be asked for at once, read at 2 MB/s in all."""
    size = str(datagram_bytes)
    with Child(NODE, "serve", place.origin, size) as provider:
        node = node_of(provider)
        sip = ("sip", place.fresh("reader"), size, place.artifact.hex(), node)
        with Child(NODE, *sip) as reader:
            assert reader.hear(START_S)["linked"]
            before_bytes = provider.memory_bytes
            most_bytes, round_trips_s, read_bytes = before_bytes, [0.0], 0
            started_s = perf_counter()
            while perf_counter() - started_s < watch_s:
                said = reader.hear(REPORT_S)
                round_trips_s += said["round_trips_s"]
                read_bytes = said["read_bytes"]
                most_bytes = max(most_bytes, provider.memory_bytes)
            seconds = perf_counter() - started_s
    options.say(f"a slow reader took {read_bytes / MB / seconds:.1f} MB/s for {seconds:.0f} s")
    name = f"1 GiB offered to a reader of 2 MB/s, {watch_s:.0f} s"
    return [
        Row(f"{name}: sender grows by", (most_bytes - before_bytes) / 2**20, "MiB"),
        Row(
            f"{name}: longest of {len(round_trips_s) - 1} control round trips",
            max(round_trips_s),
            "s",
        ),
        Row(f"{name}: read", read_bytes / MB / seconds, "MB/s"),
    ]
