"""What the machine says of itself, beside the tools that everybody has."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from p2pd.machine import SHARED, memory, memory_kills, own_limit, room

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from proc")


def test_memory_is_what_the_kernel_says() -> None:
    found = memory()
    assert found is not None
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert abs(found.total - pages) < 2**20
    assert 0 < found.available <= found.total
    assert found.limit is None or found.limit > 0


def test_what_the_kernel_has_killed_is_counted() -> None:
    kills = memory_kills()
    assert kills is None or kills >= 0


def test_the_room_of_a_disk_is_that_of_its_file_system(tmp_path: Path) -> None:
    found = room(tmp_path)
    assert found is not None
    assert found.total == shutil.disk_usage(tmp_path).total
    assert room(tmp_path / "nowhere") is None
    assert room(SHARED) is not None


def test_a_limit_of_this_process_is_known() -> None:
    code = (
        "import resource; from p2pd.machine import own_limit\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**32, 2**32)); print(own_limit())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 2**32
    if resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        assert own_limit() is None
