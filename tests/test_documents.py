"""What the documents name exists."""

import re
from pathlib import Path

import pytest

from p2pd.config.fleet import FLEET_TABLES, FleetNode, FleetSettings
from p2pd.config.schema import Key, keys_of, meanings_of
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


def test_the_manual_has_every_key_of_a_fleet_file_as_the_code_has_it() -> None:
    assert set(FLEET_TABLES) == {"fleet", "nodes"}
    wanted = [
        f"| `{table}.{name}` | {_default(key)} | {meanings_of(owner)[name]} |"
        for table, owner in (("fleet", FleetSettings), ("nodes", FleetNode))
        for name, key in keys_of(owner).items()
    ]
    manual = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").splitlines()
    told = [row for row in manual if re.match(r"\| `(fleet|nodes)\.\w+` \|", row)]
    assert told == wanted


def _default(key: Key) -> str:
    if key.required:
        return "required"
    return "" if key.default in (None, ()) else f"`{key.default}`"
