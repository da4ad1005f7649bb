"""Lets one role run: events in, effects carried out in order, jobs beside it."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Generic, TypeVar

import trio

from p2pd.ports import Role

E = TypeVar("E")


class Inbox(Generic[E]):
    """Events on their way to their reader. Bounded by what the pool admits and by the jobs under way."""

    def __init__(self, saw: Callable[[E, float], None] | None = None) -> None:
        """saw is told of each event, and when it came."""
        self._send, self._receive = trio.open_memory_channel[E](inf)
        self._saw = saw

    def put(self, event: E) -> None:
        if self._saw is not None:
            self._saw(event, trio.current_time())
        self._send.send_nowait(event)

    async def get(self) -> Sequence[E]:
        """All that wait, one at least."""
        events = [await self._receive.receive()]
        events += [self._receive.receive_nowait() for _ in range(self._waiting())]
        return events

    def _waiting(self) -> int:
        return self._receive.statistics().current_buffer_used


async def drive(role: Role, inbox: Inbox[object]) -> None:
    """Runs until cancelled, or until an effect fails for good."""
    async with trio.open_nursery() as nursery:
        await _carry_out(role, role.start(trio.current_time()), inbox, nursery)
        while True:
            deadline_s = role.next_deadline_s()
            events: Sequence[object] = ()
            with trio.move_on_at(inf if deadline_s is None else deadline_s):
                events = await inbox.get()
            for event in events:
                effects = role.handle(event, trio.current_time())
                await _carry_out(role, effects, inbox, nursery)
                await _tick_if_due(role, inbox, nursery)
            if not events:
                await _tick_if_due(role, inbox, nursery)


async def say_leave(role: Role) -> bool:
    """Carries out the last effects of a role that is not driven any more. False: there are none."""
    effects = role.leave()
    for effect in effects:
        await role.carry_out(effect)
    return bool(effects)


async def _tick_if_due(role: Role, inbox: Inbox[object], nursery: trio.Nursery) -> None:
    deadline_s, now_s = role.next_deadline_s(), trio.current_time()
    if deadline_s is not None and deadline_s <= now_s:
        await _carry_out(role, role.tick(now_s), inbox, nursery)


async def _carry_out(
    role: Role, effects: Sequence[object], inbox: Inbox[object], nursery: trio.Nursery
) -> None:
    for effect in effects:
        if role.is_job(effect):
            nursery.start_soon(_do_job, role, effect, inbox)
        else:
            event = await role.carry_out(effect)
            if event is not None:
                inbox.put(event)


async def _do_job(role: Role, effect: object, inbox: Inbox[object]) -> None:
    event = await role.carry_out(effect)
    if event is not None:
        inbox.put(event)
