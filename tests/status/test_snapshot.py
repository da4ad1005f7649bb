import json
from dataclasses import replace
from typing import Any

import pytest

from p2pd.errors import RemoteError
from p2pd.status.snapshot import Snapshot, from_json, to_json
from tests.status.samples import busy, revision


def test_what_went_through_json_is_the_same() -> None:
    assert from_json(json.loads(json.dumps(to_json(busy()), allow_nan=False))) == busy()


def test_a_bare_node_goes_through_json_too() -> None:
    bare = Snapshot(node=busy().node)
    assert from_json(to_json(bare)) == bare


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_becomes_null(value: float) -> None:
    odd = replace(revision(), closes_in_s=value)
    text = json.dumps(to_json(replace(busy(), revisions=(odd,))), allow_nan=False)
    assert from_json(json.loads(text)).revisions[0].closes_in_s is None


def test_what_a_peer_calls_itself_cannot_steer_the_terminal() -> None:
    peer = replace(busy().peers[0], roles=("trainer\x1b[2J",), address="evil\r\nhost:1")
    found = from_json(to_json(replace(busy(), peers=(peer,)))).peers[0]
    assert (found.roles, found.address) == (("trainer\\x1b[2J",), "evil\\r\\nhost:1")


def _drop(data: Any) -> None:
    del data["node"]["role"]


def _add(data: Any) -> None:
    data["peers"][0]["colour"] = "red"


def _retype(data: Any) -> None:
    data["revisions"][0]["height"] = "14"


def _truth_for_number(data: Any) -> None:
    data["revisions"][0]["heads"] = True


def _no_list(data: Any) -> None:
    data["peers"] = {}


def _no_object(data: Any) -> None:
    data["node"] = []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_drop, "status.node must have the fields name, role, "),
        (_add, "status.peers[0] must have the fields"),
        (_retype, "status.revisions[0].height must be int, got str"),
        (_truth_for_number, "status.revisions[0].heads must be int, got bool"),
        (_no_list, "status.peers must be a list"),
        (_no_object, "status.node must have the fields"),
    ],
)
def test_anything_else_is_refused_by_name(spoil: Any, said: str) -> None:
    data = to_json(busy())
    spoil(data)
    with pytest.raises(RemoteError) as refused:
        from_json(data)
    assert said in str(refused.value)


@pytest.mark.parametrize("data", [None, [], 3, "status", {}])
def test_what_is_no_status_at_all_is_refused(data: object) -> None:
    with pytest.raises(RemoteError):
        from_json(data)
