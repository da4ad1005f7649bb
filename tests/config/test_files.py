"""The files in configs/ load, and the reference tells what the code does."""

from pathlib import Path

import pytest

from p2pd.config.fleet import load_fleet
from p2pd.config.loading import Override, load
from p2pd.config.node import NODE_TABLES
from p2pd.config.render import describe
from p2pd.daemon.publish import PUBLISH_TABLES
from p2pd.io.overlay.settings import OverlaySettings

CONFIGS = Path(__file__).parents[2] / "configs"
TABLES = {**NODE_TABLES, "overlay": OverlaySettings}
HEADER = """\
# Every setting of a node, with its meaning, type and default. To set one, remove the # before it.
# A path is relative to the file that it stands in. p2pd config check tells what is wrong,
# p2pd config show what takes effect.

"""


def reference() -> str:
    return HEADER + describe(TABLES)


REVISION_HEADER = """\
# Every setting of a revision, for p2pd experiment publish --from FILE, with its meaning, type and
# default. To set one, remove the # before it, or say --set TABLE.KEY=VALUE.

"""


def revision_reference() -> str:
    return REVISION_HEADER + describe(PUBLISH_TABLES)


def rewrite() -> None:
    (CONFIGS / "reference.toml").write_text(reference(), encoding="utf-8")
    (CONFIGS / "revision.toml").write_text(revision_reference(), encoding="utf-8")


def test_the_reference_of_a_revision_is_up_to_date_and_loads_to_the_defaults() -> None:
    path = CONFIGS / "revision.toml"
    assert path.read_text(encoding="utf-8") == revision_reference(), (
        "run: python -c 'from tests.config.test_files import rewrite; rewrite()'"
    )
    required = [
        Override("--set", "revision", key, "x")
        for key in ("study", "experiment", "name", "workload")
    ]
    assert load(path, PUBLISH_TABLES, required) == load(None, PUBLISH_TABLES, required)


def test_the_reference_is_up_to_date_and_loads_to_the_defaults() -> None:
    path = CONFIGS / "reference.toml"
    assert path.read_text(encoding="utf-8") == reference(), (
        "run: python -c 'from tests.config.test_files import rewrite; rewrite()'"
    )
    required = [
        Override("--role", "node", "role", "viewer"),
        Override("--data-dir", "node", "data_dir", "/data"),
        Override("--genesis", "network", "genesis", "/genesis"),
    ]
    assert load(path, TABLES, required) == load(None, TABLES, required)


@pytest.mark.parametrize("path", sorted((CONFIGS / "local").iterdir()), ids=lambda path: path.stem)
def test_each_node_of_the_local_network_loads(path: Path) -> None:
    settings = load(path, TABLES)
    assert settings["node"].name == path.stem
    assert settings["node"].data_dir == CONFIGS.parent / "local" / path.stem
    assert settings["network"].genesis == CONFIGS.parent / "local" / "genesis"


def test_no_two_local_nodes_share_an_address_and_all_know_the_seed() -> None:
    nodes = {path.stem: load(path, TABLES) for path in (CONFIGS / "local").iterdir()}
    listening = [settings["overlay"].listen for settings in nodes.values()]
    assert len(set(listening)) == len(listening) == 9
    seed = nodes.pop("seed")["overlay"].listen
    assert {settings["network"].seeds for settings in nodes.values()} == {(seed,)}


def test_the_fleet_is_the_local_network() -> None:
    fleet = load_fleet(CONFIGS / "fleet.toml")
    local = [load(path, TABLES)["node"] for path in sorted((CONFIGS / "local").iterdir())]
    assert sorted(
        (node.name, node.role, fleet.data_dir(node).resolve()) for node in fleet.nodes
    ) == [(node.name, node.role, node.data_dir.resolve()) for node in local]
