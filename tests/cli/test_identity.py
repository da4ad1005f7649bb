import stat
from pathlib import Path

from p2pd.core.ids import PublicKey, peer_id
from tests.cli.commands import p2pd


def test_the_first_time_makes_a_key_and_the_next_shows_the_same(tmp_path: Path) -> None:
    data_dir = tmp_path / "deep" / "node"
    first = p2pd("id", "--data-dir", data_dir, "--json").json
    assert p2pd("id", "--data-dir", data_dir, "--json").json == first
    key = PublicKey(bytes.fromhex(first["public_key"]))
    assert first["peer"] == peer_id(key).hex()
    assert stat.S_IMODE((data_dir / "key").stat().st_mode) == 0o600


def test_for_people_both_names_are_written_in_full(tmp_path: Path) -> None:
    found = p2pd("id", "--data-dir", tmp_path, "--json").json
    out = p2pd("id", "--data-dir", tmp_path).out
    assert found["peer"] in out
    assert found["public_key"] in out
