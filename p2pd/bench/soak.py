"""What 100,000 requests on one connection leave behind in memory. MB are 10**6 bytes."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from p2pd.bench.children import Child
from p2pd.bench.places import LIMIT_S, MB, NODE, START_S, node_of, prepare
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.core.wording import counted

REQUESTS = 100_000
PART = 10_000
WARM = 2
"""Parts that are left out of the slope: caches and free lists fill first."""
DATAGRAM_BYTES = "1200"
ANSWER_BYTES = 1000


def run(options: Options) -> Sequence[Row]:
    requests = PART * (options.repeats or REQUESTS // PART)
    with TemporaryDirectory(prefix="p2pd-bench-") as directory:
        place = prepare(Path(directory), ANSWER_BYTES)
        with Child(NODE, "serve", place.origin, DATAGRAM_BYTES) as provider:
            ask = ("ask", place.fresh("asker"), DATAGRAM_BYTES, place.artifact.hex())
            with Child(NODE, *ask, str(requests), node_of(provider)) as asker:
                assert asker.hear(START_S)["linked"]
                started_s = perf_counter()
                memory: dict[Child, list[int]] = {provider: [], asker: []}
                for _ in range(requests // PART):
                    asked = asker.hear(LIMIT_S)["asked"]
                    for child, found in memory.items():
                        found.append(child.memory_bytes)
                    resident = ", ".join(f"{found[-1] / MB:.1f}" for found in memory.values())
                    options.say(f"{counted(asked, 'request')}: {resident} MB resident")
                seconds = perf_counter() - started_s
    name = f"{counted(requests, 'request', ',')} on one connection"
    answering, asking = (slope(found) / MB for found in memory.values())
    return [
        Row(f"{name}: answering side grows by", answering, "MB per 10,000"),
        Row(f"{name}: asking side grows by", asking, "MB per 10,000"),
        Row(f"{name}: answered", requests / seconds, "1/s"),
    ]


def slope(found: Sequence[int]) -> float:
    """Of the line through the values behind the warm ones that leaves the least squares."""
    values = found[WARM:] if len(found) > WARM + 1 else found
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    spread = sum((place - middle) ** 2 for place in range(len(values)))
    if not spread:
        return 0.0
    return sum((n - middle) * (value - mean) for n, value in enumerate(values)) / spread
