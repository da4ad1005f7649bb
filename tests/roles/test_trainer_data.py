"""A trainer carries out what its machine says of the data of a lease."""

import pytest
import trio

from p2pd.core.lease_data import BringData, DataBrought
from p2pd.core.trainer import Abandon
from p2pd.errors import NoRoomError, P2pError, RemoteError, UnreachableError
from tests.roles.test_roles import Desk, carried_out, role_of, virtually

BRING = BringData(2, (1,))


def desk(error: P2pError | None = None) -> Desk:
    found = Desk(error=error)

    async def bring_data(height: int, shards: tuple[int, ...]) -> None:
        found._note("data", height, shards)
        await trio.sleep(1.0)

    found.bring_data = bring_data
    return found


def test_the_data_of_a_lease_are_a_job() -> None:
    giver = desk()
    assert role_of("trainer", giver).is_job(BRING)
    assert carried_out("trainer", giver, BRING) == DataBrought(BRING, "")
    assert giver.asked == [("data", 2, (1,))]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (UnreachableError("nobody has it"), "nobody has it"),
        (RemoteError("other data"), "other data"),
        (NoRoomError("/home/me/blobs: full"), "there is no room for its data, or it failed"),
    ],
)
def test_that_they_do_not_come_is_an_answer_with_the_reason(error: P2pError, why: str) -> None:
    assert carried_out("trainer", desk(error), BRING) == DataBrought(BRING, why)


def test_what_nobody_waits_for_any_more_is_given_up() -> None:
    answers: list[object] = []

    async def main() -> None:
        role = role_of("trainer", desk())

        async def bring() -> None:
            answers.append(await role.carry_out(BRING))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bring)
            await trio.sleep(0.5)
            await role.carry_out(Abandon())
        assert trio.current_time() == 0.5

    virtually(main)
    assert answers == [None]
