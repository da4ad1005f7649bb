"""What the documents name exists."""

import re
from pathlib import Path

import pytest

from tests.faults.lane import CASES

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
STATED = "`make cases`"
DOCUMENTS = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_test_that_a_document_names_is_there(document: Path) -> None:
    missing = [
        f"{file}::{name}" if name else file
        for file, name in NAMED.findall(document.read_text(encoding="utf-8"))
        if not (ROOT / file).is_file()
        or (name and f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_the_faults_that_the_lane_has_as_stated_are_those_that_the_document_says() -> None:
    rows = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    told = [row.partition(".")[0].removeprefix("| ") for row in rows if row.endswith(f"{STATED} |")]
    listed = [
        row.split(" | ")[0].removeprefix("| ") for row in rows if re.match(r"\| \w\d+ \|", row)
    ]
    assert sorted(told) == sorted(listed) == sorted(CASES)
