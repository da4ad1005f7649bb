from pathlib import Path

import pytest

from p2pd.daemon.render import node_toml
from p2pd.daemon.settings import load_node


@pytest.mark.parametrize("name", ["plain", 'with "quotes" and \\', "späße und ☃", "a\nline"])
def test_what_is_written_for_a_node_loads_as_what_was_meant(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    path = tmp_path / "node.toml"
    path.write_text(
        node_toml(
            role="trainer",
            name="trainer1",
            data_dir=directory / "data",
            genesis=directory / "genesis",
            record=directory / "record",
            seeds=("127.0.0.1:4700",),
            listen="127.0.0.1:0",
            workload_path=directory / "code",
            threads=2,
            data=directory / "set",
            datagram_bytes=16_000,
        )
    )
    config = load_node(path)
    assert (config.node.role, config.node.name) == ("trainer", "trainer1")
    assert config.node.data_dir == directory / "data"
    assert config.network.genesis == directory / "genesis"
    assert config.network.seeds == ("127.0.0.1:4700",)
    assert config.experiment.record == directory / "record"
    assert config.experiment.workload_path == directory / "code"
    assert config.overlay.listen == "127.0.0.1:0"
    assert config.overlay.datagram_bytes == 16_000
    assert config.worker.threads == 2
    assert config.data.serve == directory / "set"


def test_what_is_not_given_is_not_written(tmp_path: Path) -> None:
    text = node_toml(
        role="viewer", name="v", data_dir=tmp_path, genesis=tmp_path / "g", listen="127.0.0.1:0"
    )
    path = tmp_path / "node.toml"
    path.write_text(text)
    assert load_node(path).experiment.record is None
    assert "record" not in text
    assert "datagram_bytes" not in text
