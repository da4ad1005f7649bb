from pathlib import Path

import pytest

from p2pd.io import probing
from p2pd.io.probing import probe


def test_this_machine_is_measured(tmp_path: Path) -> None:
    """With torch, in a process of its own: once for all of these."""
    found = probe(tmp_path / "not" / "there" / "yet")
    assert found.disk.place == str(tmp_path)
    assert found.disk.sync_s is not None
    assert found.disk.sync_s > 0
    assert found.cores > 0
    assert found.open_files > 0
    assert found.udp_buffer_bytes > 0
    assert found.torch is not None, found.torch_why
    assert found.torch.devices[0].name == "cpu"
    assert found.torch.devices[0].flops > 10**7


def test_a_directory_in_which_nothing_can_be_written_is_said() -> None:
    found = probing._disk(Path("/proc"))
    assert found.sync_s is None
    assert found.why


def test_a_torch_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('No module named torch')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found, why = probing._torch()
    assert found is None
    assert why == "torch is not installed: pip install 'p2pd-fleet[torch]'"
