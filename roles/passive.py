"""A role that only follows: the node adopts, serves and forwards by itself."""

from p2pd.core.ids import DecisionId
from p2pd.core.voting.exchange import Inventory
from p2pd.ports import RoleView


class Follower:
    def __init__(self, activity: str) -> None:
        self._activity = activity

    def start(self, now_s: float) -> list[object]:
        return []

    def handle(self, event: object, now_s: float) -> list[object]:
        return []

    def tick(self, now_s: float) -> list[object]:
        return []

    def next_deadline_s(self) -> float | None:
        return None

    def leave(self) -> tuple[()]:
        return ()

    def is_job(self, effect: object) -> bool:
        return False

    async def carry_out(self, effect: object) -> None:
        raise AssertionError("a follower has no effects")

    def choices_of(self, value: DecisionId) -> bytes | None:
        return None

    def holdings(self) -> None:
        return None

    def lacking(self, theirs: Inventory) -> tuple[()]:
        return ()

    def view(self) -> RoleView:
        return RoleView(self._activity, None)
