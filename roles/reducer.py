"""Merges cohorts early, as proposals. Its machine is p2pd.core.reducer."""

from typing import cast

from p2pd.core.ids import DecisionId, peer_id
from p2pd.core.reducer import Effect, Event, Reducer
from p2pd.core.validator.events import FetchUpdate, Inspect, Merge, Publish
from p2pd.core.voting.exchange import Inventory
from p2pd.ports import Role, RoleView, Services
from roles import jobs


class ReducerRole:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._machine = Reducer(
            services.setting, peer_id(services.key), services.sign, services.decision, 0.0
        )

    def start(self, now_s: float) -> list[Effect]:
        self._machine.previous = self._services.decision
        self._machine.now_s = now_s
        return self._machine.resume(self._services.own_objects())

    def handle(self, event: object, now_s: float) -> list[Effect]:
        return self._machine.handle(cast("Event", event), now_s)

    def tick(self, now_s: float) -> list[Effect]:
        return self._machine.tick(now_s)

    def next_deadline_s(self) -> float | None:
        return self._machine.next_deadline_s()

    def leave(self) -> list[Effect]:
        return self._machine.leave()

    def is_job(self, effect: object) -> bool:
        return isinstance(effect, FetchUpdate | Inspect | Merge)

    async def carry_out(self, effect: object) -> Event | None:
        match effect:
            case Publish(signed=signed):
                await self._services.publish(signed)
            case FetchUpdate():
                return await jobs.fetch_update(self._services, effect)
            case Inspect():
                return await jobs.inspect(self._services, effect)
            case Merge():
                return await jobs.merge(self._services, effect)
            case _:
                raise AssertionError(f"a reducer has no effect {effect}")
        return None

    def choices_of(self, value: DecisionId) -> bytes | None:
        return None

    def holdings(self) -> None:
        return None

    def lacking(self, theirs: Inventory) -> tuple[()]:
        return ()

    def view(self) -> RoleView:
        return RoleView(self._machine.activity(), None)


class ReducerPlugin:
    name = "reducer"
    needs_worker = False
    needs_math = True
    offers = ("reducer",)

    def at(self, services: Services) -> Role:
        return ReducerRole(services)
