"""The driver with a role that is told what to do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
import trio
import trio.lowlevel

from p2pd.core.ids import DecisionId
from p2pd.core.voting.exchange import Inventory
from p2pd.errors import LocalError
from p2pd.node.driver import Inbox, drive, say_leave
from p2pd.ports import RoleView
from p2pd.sim.run import run_seeded


@dataclass
class Script:
    """Port Role. Effects are words: `job N` takes N seconds and answers, `wait N` takes N seconds in order."""

    first: list[str] = field(default_factory=list)
    on: dict[str, list[str]] = field(default_factory=dict)
    deadlines: list[float] = field(default_factory=list)
    log: list[tuple[float, str]] = field(default_factory=list)

    def note(self, what: str) -> None:
        self.log.append((round(trio.current_time(), 3), what))

    def start(self, now_s: float) -> list[str]:
        return self.first

    def handle(self, event: object, now_s: float) -> list[str]:
        assert now_s == trio.current_time()
        self.note(f"event {event}")
        return self.on.get(str(event), [])

    def tick(self, now_s: float) -> list[str]:
        self.note("tick")
        self.deadlines.pop(0)
        return self.on.get("tick", [])

    def next_deadline_s(self) -> float | None:
        return self.deadlines[0] if self.deadlines else None

    def leave(self) -> list[str]:
        return self.on.get("leave", [])

    def is_job(self, effect: object) -> bool:
        return str(effect).startswith("job")

    async def carry_out(self, effect: object) -> str | None:
        what, _, seconds = str(effect).partition(" ")
        if what == "fail":
            raise LocalError("an effect failed")
        await trio.sleep(float(seconds or 0))
        self.note(f"done {effect}")
        return f"answer {effect}" if what == "job" else None

    def choices_of(self, value: DecisionId) -> bytes | None:
        return None

    def holdings(self) -> None:
        return None

    def lacking(self, theirs: Inventory) -> tuple[()]:
        return ()

    def view(self) -> RoleView:
        return RoleView("", None)


def driven(role: Script, more: Callable[[Inbox[object]], Awaitable[None]] | None = None) -> None:
    async def main() -> None:
        inbox = Inbox[object]()
        with trio.move_on_after(20.0):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive, role, inbox)
                if more is not None:
                    await more(inbox)

    assert run_seeded(0, main, 60.0)


def test_effects_are_carried_out_in_order_and_jobs_beside_them() -> None:
    role = Script(first=["job 2.5", "wait 1", "wait 2", "job 1"])
    driven(role)
    assert role.log == [
        (1.0, "done wait 1"),
        (2.5, "done job 2.5"),
        (3.0, "done wait 2"),
        (3.0, "event answer job 2.5"),
        (4.0, "done job 1"),
        (4.0, "event answer job 1"),
    ]


def test_events_come_in_the_order_in_which_they_were_put() -> None:
    role = Script(on={"a": ["wait 1"]})

    async def put(inbox: Inbox[object]) -> None:
        for event in ("a", "b", "c"):
            inbox.put(event)
        await trio.lowlevel.checkpoint()

    driven(role, put)
    assert role.log == [
        (0.0, "event a"),
        (1.0, "done wait 1"),
        (1.0, "event b"),
        (1.0, "event c"),
    ]


def test_a_deadline_is_kept_to_the_instant() -> None:
    role = Script(deadlines=[2.5, 4.0], on={"tick": ["wait 0"]})
    driven(role)
    assert role.log == [(2.5, "tick"), (2.5, "done wait 0"), (4.0, "tick"), (4.0, "done wait 0")]


def test_a_deadline_that_passed_during_an_effect_is_kept_right_after_it() -> None:
    role = Script(first=["wait 5"], deadlines=[2.0])
    driven(role)
    assert role.log == [(5.0, "done wait 5"), (5.0, "tick")]


def test_a_stream_of_events_does_not_starve_a_deadline() -> None:
    role = Script(deadlines=[1.0])

    async def chatter(inbox: Inbox[object]) -> None:
        for n in range(8):
            inbox.put(n)
            await trio.sleep(0.3)

    driven(role, chatter)
    assert (1.0, "tick") in role.log


@pytest.mark.parametrize("first", [["fail"], ["wait 1", "fail", "wait 1"]])
def test_an_effect_that_fails_ends_the_role(first: list[str]) -> None:
    role = Script(first=first)
    with pytest.raises(BaseExceptionGroup) as caught:
        driven(role)
    assert caught.group_contains(LocalError, match="an effect failed")
    assert len(role.log) == len(first) // 2


def test_the_last_words_of_a_role_are_carried_out_in_order() -> None:
    role = Script(on={"leave": ["wait 1", "wait 2"]})

    async def main() -> None:
        assert await say_leave(role)
        assert not await say_leave(Script())

    assert run_seeded(0, main, 10.0)
    assert role.log == [(1.0, "done wait 1"), (3.0, "done wait 2")]
