"""Trains alone, as a process: `python -m p2pd.workload.alone MODULE --samples N --every N`.

Prints one JSON object a line: {"point": ...} for each measurement, then {"result": ...} or
{"error": ...}. Standard error belongs to the user's code, whose prints go there too.
"""

import dataclasses
import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from p2pd.workload.places import data_in
from p2pd.workload.source import failure_line, show_traceback, source_files


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="p2pd.workload.alone")
    parser.add_argument("module")
    parser.add_argument("--config", default="{}", help="JSON: the workload's configuration")
    parser.add_argument("--samples", type=int, required=True, help="how many to train on in all")
    parser.add_argument("--every", type=int, required=True, help="samples between measurements")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--traceback", action="store_true", help="show where the code failed")
    parser.add_argument("--path", action="append", default=[], help="directory of workloads")
    parser.add_argument("--data", action="append", default=[], help="directory of shard files")
    options = parser.parse_args(arguments)
    sys.path[:0] = options.path
    lines = _take_standard_output()
    files: tuple[Path, ...] = ()

    def say(key: str, value: object) -> None:
        print(json.dumps({key: value}), file=lines, flush=True)

    try:
        files = source_files(options.module)
        import torch  # noqa: PLC0415 - takes seconds: a module that is missing is named first

        from p2pd.workload.local import train_alone  # noqa: PLC0415

        torch.set_num_threads(options.threads)
        with data_in(tuple(map(Path, options.data))):
            result = train_alone(
                options.module,
                json.loads(options.config),
                samples=options.samples,
                every=options.every,
                report=lambda point: say("point", dataclasses.asdict(point)),
            )
    except BaseException as error:  # noqa: BLE001 - around the user's code, which may raise anything
        if options.traceback:
            show_traceback(error, files)
        say("error", failure_line(error, files))
        return 1
    say("result", {k: v for k, v in dataclasses.asdict(result).items() if k != "points"})
    return 0


def _take_standard_output() -> TextIO:
    """Keeps the real standard output for the protocol: whatever else is printed goes to stderr."""
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(kept, "w", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
