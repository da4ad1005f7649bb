"""A blob store in a directory of its own."""

from pathlib import Path

import pytest

from tests.io.blob_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "blobs")
