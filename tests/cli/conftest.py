"""A chain on disk that each test may damage."""

from pathlib import Path

import pytest

from tests.cli.chains import Built, build_chain


@pytest.fixture
def chain(tmp_path: Path) -> Built:
    return build_chain(tmp_path)
