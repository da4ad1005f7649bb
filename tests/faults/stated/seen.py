"""What a case came to: its figures, each with whether it is what it should be."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash import standin
from tests.crash.fleet import built_standin
from tests.end_to_end.fleet_bench import Bench, Built, build_revision

ROOT = Path(__file__).parents[3]
PACED = "tests.faults.stated.paced"


@dataclass
class Seen:
    figures: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def note(self, figure: str, *, right: bool) -> None:
        """A figure, and whether the claim that goes with it holds."""
        self.figures.append(figure)
        if not right:
            self.wrong.append(figure)


def quiet(line: str) -> None:
    """A case prints one line, in its end."""


def light(directory: Path) -> Built:
    """The revision of a workload without torch; the nodes started from here on have it."""
    os.environ.update(standin.install(directory / "installed"))
    return built_standin(directory / "built")


async def paced(directory: Path, shard_samples: int) -> Built:
    """The revision of a workload with BatchNorm that can be slow; nodes started from here on have it."""
    os.environ["PYTHONPATH"] = str(ROOT)
    built = directory / "built"
    built.mkdir()
    return await build_revision(built, PACED, shard_samples=shard_samples)


def traces(bench: Bench) -> int:
    """Exceptions that any node has shown."""
    return sum(bench.said(name).count("Traceback") for name in bench.nodes)


def all_run(bench: Bench, *but: str) -> bool:
    return all(node.running for name, node in bench.nodes.items() if name not in but)
