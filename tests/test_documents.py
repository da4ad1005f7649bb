"""What the documents name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
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
