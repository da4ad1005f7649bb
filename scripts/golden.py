"""Prints what each golden merge gives here, to be recorded in p2pd/tensors/golden.py."""

import tempfile
from pathlib import Path

from p2pd.tensors.golden import GOLDEN, golden_results


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for golden, found in zip(GOLDEN, golden_results(Path(directory)), strict=True):
            mark = "as recorded" if found == golden.result else "NOT as recorded"
            print(f"{golden.rule.name:20} {found} {mark}")


if __name__ == "__main__":
    main()
