"""How a role comes by a head."""

import pytest

from p2pd.core.ids import ArtifactId
from p2pd.core.trainer import FetchBase
from p2pd.core.validator.events import Fetched
from p2pd.core.work import HeadStep, RebuildJob
from p2pd.errors import P2pError, RemoteError, StoreError
from tests.core.builders import SETTING
from tests.roles.test_roles import FIRST, Desk, carried_out


def way(number: int) -> RebuildJob:
    name = bytes([number]) * 32
    step = HeadStep(ArtifactId(bytes(32)), ArtifactId(name))
    return RebuildJob(FIRST.head, step, SETTING.revision.schema, "int8")


@pytest.mark.parametrize(
    ("here", "error", "asked"),
    [
        (True, None, ["STEP", "rebuild", "STEP", "rebuild", "HEAD"]),
        (True, RemoteError("another head"), ["STEP", "rebuild", "HEAD"]),
        (True, StoreError("no room"), ["STEP", "rebuild", "HEAD"]),
        (False, None, ["STEP", "HEAD"]),
    ],
)
def test_a_head_is_made_of_its_steps_and_fetched_whole_where_they_do_not_lead_there(
    here: bool, error: P2pError | None, asked: list[str]
) -> None:
    desk = Desk(here=here, error=error, ways=(way(1), way(2)))
    assert carried_out("trainer", desk, FetchBase(FIRST.head)) == Fetched(FIRST.head, here)
    names = [one[0] if one[0] == "rebuild" else one[2].name for one in desk.asked]
    assert names == asked
    assert desk.asked[0][1] == way(1).step.artifact
