"""A longer search, guided by coverage: python -m tests.fuzz.lane [--seconds 20] [TARGET...]

Each target runs in a process of its own under Atheris, which is libFuzzer for Python. Inputs that reached new code are
kept in --keep for the next time, and so is one that fails: python -m tests.fuzz.lane --replay FILE TARGET
Seconds.
"""

import argparse
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.every import TARGETS

STARTING_S = 120
STATISTICS = {
    "runs": re.compile(r"stat::number_of_executed_units:\s*(\d+)"),
    "edges": re.compile(r"cov: (\d+)"),
    "MB": re.compile(r"stat::peak_rss_mb:\s*(\d+)"),
}


def main() -> int:
    options = _options()
    unknown = set(options.targets) - TARGETS.keys()
    if unknown:
        sys.exit(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if options.replay is not None:
        return _replay(options.targets[0], options.replay)
    if find_spec("atheris") is None:
        sys.exit(
            "atheris is not installed here: `make fuzz` installs it, or pip install -e '.[fuzz]'"
        )
    passed = [
        _run(name, options.keep / name.replace(" ", "-"), options.seconds)
        for name in options.targets or TARGETS
    ]
    return 0 if all(passed) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"))
    parser.add_argument("--replay", type=Path)
    return parser.parse_args()


def _run(name: str, directory: Path, seconds: int) -> bool:
    started_s = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.child", name, str(directory), str(seconds)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            timeout=seconds + STARTING_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        _say(
            f"{name} FAILED: not over after {error.timeout:g} s: it hangs, or this machine is too busy"
        )
        return False
    text = done.stderr.decode(errors="replace")
    found = {unit: pattern.findall(text) for unit, pattern in STATISTICS.items()}
    counts = ", ".join(f"{(counts or ['?'])[-1]:>8} {unit}" for unit, counts in found.items())
    _say(f"{name:16} {counts}, {time.monotonic() - started_s:.0f} s")
    if done.returncode:
        _say(text[-4000:])
        _say(f"{name} FAILED: the input is in {directory}")
    return done.returncode == 0


def _replay(name: str, path: Path) -> int:
    with TemporaryDirectory() as scratch:
        TARGETS[name].run(path.read_bytes(), Path(scratch))
    _say(f"{name}: a value, or the error that is its own")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
