from pathlib import Path

import pytest

from p2pd.config.fleet import FleetNode, FleetSettings, load_fleet
from p2pd.config.schema import keys_of, meanings_of
from p2pd.errors import UsageError

HEAD = """
[fleet]
dir = "run"
genesis = "genesis"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(HEAD + text)
    return path


def test_a_node_takes_from_the_fleet_what_it_does_not_say(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
base_port = 5000
threads = 2
[[nodes]]
name = "a"
role = "trainer"
[[nodes]]
name = "b"
role = "viewer"
port = 6000
data_dir = "elsewhere"
threads = 4
[[nodes]]
name = "c"
role = "trainer"
""",
    )
    fleet = load_fleet(path)
    assert [fleet.port(node) for node in fleet.nodes] == [5000, 6000, 5002]
    assert [fleet.threads(node) for node in fleet.nodes] == [2, 4, 2]
    assert [fleet.data_dir(node) for node in fleet.nodes] == [
        tmp_path / "run" / "nodes" / "a",
        tmp_path / "elsewhere",
        tmp_path / "run" / "nodes" / "c",
    ]


def test_without_a_base_port_any_free_port_will_do(tmp_path: Path) -> None:
    nodes = "".join(f"[[nodes]]\nname = 'n{n}'\nrole = 'trainer'\n" for n in range(2))
    fleet = load_fleet(written(tmp_path, nodes))
    assert [fleet.port(node) for node in fleet.nodes] == [0, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["nodes: a fleet needs at least one [[nodes]] table"]),
        (
            "base_port = 7\n[[nodes]]\nname = 'a'\nrole = 'x'\n[[nodes]]\nname = 'a'\nrole = 'x'\nport = 7",
            [
                "nodes: two nodes have the name a",
                "nodes: two nodes have the port 7",
                "nodes: two nodes have the data_dir DIR/run/nodes/a",
            ],
        ),
        ("[[nodes]]\nname = 'A b'\nrole = 'x'", ["6: nodes[0].name: must be up to 32"]),
        ("[[nodes]]\nname = '../a'\nrole = 'x'", ["6: nodes[0].name: must be up to 32"]),
        ("[[nodes]]\nname = 'a'\nrole = ''", ["7: nodes[0].role: must not be empty"]),
        ("[[nodes]]\nname = 'a'\nrole = 'x'\nport = 65536", ["8: nodes[0].port: must be a port"]),
        (
            "[[nodes]]\nname = 'a'\nrole = 'x'\nthreads = 0",
            ["8: nodes[0].threads: must be positive"],
        ),
        ("base_port = -1", ["5: fleet.base_port: must be a port from 0 to 65535, got -1"]),
        ("threads = 0", ["5: fleet.threads: must be positive, got 0"]),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(tmp_path: Path, text: str, said: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        load_fleet(written(tmp_path, text))
    lines = str(caught.value).replace(str(tmp_path), "DIR").splitlines()
    assert len(lines) == len(said)
    for line, wanted in zip(lines, said, strict=True):
        assert line.removeprefix("DIR/fleet.toml:").lstrip().startswith(wanted)


@pytest.mark.parametrize("kind", [FleetSettings, FleetNode])
def test_each_key_is_explained(kind: type) -> None:
    assert list(meanings_of(kind)) == list(keys_of(kind))
