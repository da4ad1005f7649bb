"""The benches, by name: each is a module of this package with a function run(options),
and TAKES where the size can be chosen.

To add one: a module, and a line in BENCHES.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from p2pd.bench.room import Takes, check_room
from p2pd.bench.rows import Row
from p2pd.errors import UsageError

BENCHES = {
    "merge": "merging updates, by rule, beside memcpy and torch; its memory",
    "votes": "certified decisions per second without training",
    "window": "seconds per certified window of real daemons, by step",
    "simulate": "virtual seconds and decisions per second of the simulator",
    "soak": "memory that 100,000 requests on one connection leave behind",
    "communication": "bytes of updates and heads by codec beside all-reduced gradients, and the loss",
    "transfer": "artifacts between nodes, beside aioquic's own server and TLS over TCP",
}
"""With what each measures. The module is imported only when it is run."""
TRAINED = frozenset({"communication"})
"""Those that take --data."""


@dataclass(frozen=True, slots=True)
class Options:
    say: Callable[[str], None]
    """Progress, for people."""
    sizes_mb: tuple[float, ...] = ()
    """Of the models or files, in 10**6 bytes; empty for those that the bench is known for."""
    repeats: int | None = None
    """Of what is timed; None for as many as the bench thinks fit."""
    data: Path | None = None
    """Directory of a data set, for a bench that trains on one."""


def run_bench(name: str, options: Options) -> Sequence[Row]:
    """
    Raises:
        UsageError: there is no such bench, no room for it, or no size to choose.
        P2pError: what it measures failed.
    """
    if name not in BENCHES:
        raise UsageError(f"there is no bench {name!r}: known are {', '.join(BENCHES)}")
    if options.data is not None and name not in TRAINED:
        raise UsageError(f"--data: bench {name} trains on nothing: leave it out")
    content = vars(import_module(f"p2pd.bench.{name}"))
    run: Callable[[Options], Sequence[Row]] = content["run"]
    takes: Takes | None = content.get("TAKES")
    if takes is not None:
        check_room(name, takes, options.sizes_mb)
    elif options.sizes_mb:
        raise UsageError(f"--size: bench {name} has no size to choose: leave it out")
    return run(options)
