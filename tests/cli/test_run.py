from pathlib import Path

from tests.cli.chains import build_chain
from tests.cli.commands import p2pd


def test_what_is_missing_is_said_before_anything_is_made(tmp_path: Path) -> None:
    ran = p2pd("run", "--role", "viewer", "--data-dir", tmp_path / "node")
    assert ran.code == 2
    assert "network.genesis: this key is required and missing" in ran.err
    assert not (tmp_path / "node").exists()


def test_an_option_that_is_wrong_is_named_as_it_was_typed(tmp_path: Path) -> None:
    ran = p2pd(
        *("run", "--role", "viewer", "--data-dir", tmp_path / "node"),
        *("--genesis", tmp_path / "g.cbor", "--listen", "nowhere"),
    )
    assert ran.code == 2
    assert ran.err.startswith("p2pd: --listen: overlay.listen: ")


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    genesis = build_chain(tmp_path, heights=1).genesis_file
    ran = p2pd("run", "--role", "baker", "--data-dir", tmp_path / "new", "--genesis", genesis)
    assert ran.code == 2
    assert "baker" in ran.err
    assert not (tmp_path / "new").exists()
