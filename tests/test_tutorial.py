"""The tutorial's own code blocks: its script runs, its diff makes a workload of it, and a fleet trains that."""

import re
import runpy
import sys
from pathlib import Path
from random import Random

import pytest
import torch

from p2pd.daemon.publish import ScheduleSettings
from p2pd.lab.run import Course, train
from p2pd.workload.local import train_alone

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
BLOCK = re.compile(r"```(\w+)[^\n]*\n(.*?)```", re.DOTALL)
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
MODULE = "mnist_cnn"
COUNT = 512
CHANGED_BELOW = 15


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(PAGE.read_text("utf-8")) if name == language]


def patched(text: str, diff: str) -> str:
    """Applies a unified diff of one file; each line that it does not add must be there."""
    old, new, at = text.splitlines(), [], 0
    for line in diff.splitlines()[2:]:
        if hunk := HUNK.match(line):
            start = int(hunk[1]) - 1
            new += old[at:start]
            at = start
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            if line.startswith(" "):
                new.append(old[at])
            at += 1
    return "\n".join(new + old[at:]) + "\n"


def write_images(directory: Path) -> None:
    """In the format of MNIST: a bar whose place says which digit it is, in noise."""
    directory.mkdir()
    chance = Random(5)
    for part in ("train", "t10k"):
        digits = bytes(chance.randrange(10) for _ in range(COUNT))
        pixels = bytearray()
        for digit in digits:
            row = bytes(200 if abs(column - 2 * digit - 4) < 2 else 0 for column in range(28))
            pixels += bytes(max(0, value - chance.randrange(80)) for value in row) * 28
        sides = b"".join(side.to_bytes(4) for side in (COUNT, 28, 28))
        head = bytes([0, 0, 8, 3]) + sides
        (directory / f"{part}-images-idx3-ubyte").write_bytes(head + pixels)
        head = bytes([0, 0, 8, 1]) + COUNT.to_bytes(4)
        (directory / f"{part}-labels-idx1-ubyte").write_bytes(head + digits)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    torch.set_num_threads(1)
    write_images(tmp_path / "mnist")
    path = tmp_path / f"{MODULE}.py"
    path.write_text(blocks("python")[0])
    return path


def test_the_script_trains_as_it_stands_on_the_page(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(script), run_name="__main__")
    epochs = re.findall(
        r"^epoch (\d): accuracy [01]\.\d{4}$", capsys.readouterr().out, re.MULTILINE
    )
    assert epochs == ["1", "2"]


def test_the_diff_is_short_and_makes_a_workload_that_trains_alone_and_in_a_fleet(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (diff,) = blocks("diff")
    changed = [line for line in diff.splitlines()[2:] if line.startswith(("+", "-"))]
    assert 0 < len(changed) < CHANGED_BELOW
    assert f"changes {len(changed)} of its lines" in PAGE.read_text("utf-8")
    script.write_text(patched(script.read_text(), diff))
    monkeypatch.syspath_prepend(script.parent)
    alone = train_alone(MODULE, {}, samples=2 * COUNT, every=2 * COUNT, report=print)
    assert alone.points[-1].metric > alone.points[0].metric + 0.5
    schedule = ScheduleSettings(shard_samples=16, lease_shards=8, max_lease_shards=8)
    fleet = train(Course(workload=MODULE, trainers=3, heads=3, schedule=schedule))
    assert fleet.points[-1].metric > fleet.points[0].metric + 0.5
    monkeypatch.delitem(sys.modules, MODULE)
