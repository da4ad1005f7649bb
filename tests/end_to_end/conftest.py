from pathlib import Path

import pytest
import trio

from tests.end_to_end.fleet_bench import Built, build_digits


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    directory: Path = tmp_path_factory.mktemp("built")
    return trio.run(build_digits, directory)
