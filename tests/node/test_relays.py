"""What is passed on of others, to whom, and how often."""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import trio
import trio.testing

from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.messages import Report
from p2pd.core.signed import Signed
from p2pd.core.talk import Decided, Objects, Tip, dump_talk, load_talk
from p2pd.node.neighbours import FEW, Neighbours
from p2pd.node.relays import PAUSE_S, Relays
from p2pd.ports import Link
from p2pd.wire.envelope import load, seal
from tests.core.builders import (
    GENESIS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    beacon,
    choices,
    follow,
    prevote,
    running,
    update,
)

FIRST = running(trainers=2)
SECOND = follow(FIRST, choices(FIRST))
ME, *OTHERS = (signer.peer for signer in VALIDATORS)
AUTHOR = TRAINERS[0].peer
NETWORK = SETTING.genesis.network


@dataclass
class Wire:
    """Port Transport, as far as messages are sent on it: notes them."""

    roles: dict[PeerId, str]
    sent: list[tuple[PeerId, Any]] = field(default_factory=list)
    patient: list[bool] = field(default_factory=list)
    """Of each that was sent."""
    peer: PeerId = ME
    address: str = ""

    def links(self) -> tuple[Link, ...]:
        hellos = {
            peer: Hello(PROTOCOL_VERSION, NETWORK, (role,), "", "test")
            for peer, role in self.roles.items()
        }
        return tuple(Link(peer, hellos[peer], "", dialled=False) for peer in sorted(self.roles))

    def send(self, peer: PeerId, message: bytes, *, patient: bool = False) -> bool:
        self.sent.append((peer, load_talk(message)))
        self.patient.append(patient)
        return True

    async def connect(self, address: str, peer: PeerId | None) -> NoReturn:
        raise AssertionError

    async def drain(self) -> NoReturn:
        raise AssertionError

    async def request(self, peer: PeerId, message: bytes, *, limit_bytes: int) -> NoReturn:
        raise AssertionError

    def disconnect(self, peer: PeerId, why: str) -> NoReturn:
        raise AssertionError

    async def run(self, handler: object, *, task_status: object = None) -> NoReturn:
        raise AssertionError

    def objects(self, peer: PeerId) -> list[Signed[Any]]:
        """Those that a neighbour was sent."""
        talks = [talk for to, talk in self.sent if to == peer and isinstance(talk, Objects)]
        return [load(one, NETWORK) for talk in talks for one in talk.envelopes]


def wire() -> Wire:
    """To all other validators, and to a trainer."""
    return Wire({**dict.fromkeys(OTHERS, "validator"), AUTHOR: "trainer"})


def relayed(wire: Wire, *heard: tuple[Signed[Any], PeerId | None], at_once: bool = False) -> None:
    """An object and who sent it, one after the other; waits until all is passed on."""

    async def main() -> None:
        relays = Relays(ME, Neighbours(wire))
        seen: set[bytes] = set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relays.run)
            await trio.testing.wait_all_tasks_blocked()
            for signed, source in heard:
                if signed.id in seen and source is not None:
                    relays.came_again(signed, source)
                else:
                    relays.add(signed, source)
                seen.add(signed.id)
            if not at_once:
                await trio.sleep(PAUSE_S)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))


def test_what_came_from_a_neighbour_meanwhile_is_not_sent_to_it() -> None:
    mine, one = wire(), update(FIRST, TRAINERS[0])
    relayed(mine, (one, AUTHOR), (one, OTHERS[0]))
    assert mine.objects(OTHERS[0]) == []
    assert mine.objects(AUTHOR) == []
    assert all(mine.objects(other) == [one] for other in OTHERS[1:])


def test_what_comes_together_is_passed_on_in_one_message() -> None:
    mine = wire()
    both: list[Signed[Any]] = [update(FIRST, TRAINERS[0]), beacon(2, TRAINERS[1])]
    relayed(mine, *((one, AUTHOR) for one in both))
    assert [peer for peer, _ in mine.sent] == sorted(OTHERS)
    assert all(mine.objects(other) == both for other in OTHERS)


def test_votes_of_others_go_on_together_after_a_moment() -> None:
    """Validators have links to each other; what comes around by a third one is mostly late anyway."""
    mine = wire()
    votes: list[Signed[Any]] = [
        prevote(round_, VALIDATORS[1], value=SECOND.id) for round_ in (2, 3)
    ]
    relayed(mine, *((vote, VALIDATORS[1].peer) for vote in votes), at_once=True)
    assert mine.sent == []
    relayed(mine, *((vote, VALIDATORS[1].peer) for vote in votes))
    told = [peer for peer, _ in mine.sent]
    assert len(told) == len(set(told)) > 0  # one message each
    assert all(mine.objects(peer) == votes for peer in told)


def test_only_what_nobody_waits_for_may_wait_for_something_to_go_with() -> None:
    report = seal(VALIDATORS[0], "report", SETTING.scope(1), Report(FIRST.head, 1, 1, 1))
    mine = wire()
    relayed(mine, (report, None))
    assert mine.patient == [True] * len(mine.roles)
    for others in ([(beacon(2, TRAINERS[1]), AUTHOR)], [(beacon(2, VALIDATORS[0]), None)]):
        mine = wire()
        relayed(mine, (report, None), *others)
        assert {len(talk.envelopes) for _, talk in mine.sent if len(talk.envelopes) > 1} <= {2}
        assert False in mine.patient
        for (_, talk), patient in zip(mine.sent, mine.patient, strict=True):
            kinds = {load(one, NETWORK).kind for one in talk.envelopes}
            assert patient == (kinds == {"report"})


def test_a_report_goes_on_to_one_of_all_neighbours() -> None:
    mine = Wire(dict.fromkeys([*OTHERS, *(one.peer for one in TRAINERS)], "viewer"))
    report = seal(VALIDATORS[1], "report", SETTING.scope(1), Report(FIRST.head, 1, 1, 1))
    relayed(mine, (report, OTHERS[0]))
    assert len(mine.roles) > len(mine.sent) == 1


def test_what_is_made_here_goes_out_at_once_but_for_reports_which_go_to_all() -> None:
    mine = Wire(dict.fromkeys([*OTHERS, *(one.peer for one in TRAINERS)], "validator"))
    relayed(mine, (update(FIRST, TRAINERS[0]), None), at_once=True)
    assert len(mine.sent) == len(mine.roles) - 1  # all but its author
    mine.sent.clear()
    report = seal(VALIDATORS[0], "report", SETTING.scope(1), Report(FIRST.head, 1, 1, 1))
    relayed(mine, (report, None), at_once=True)
    assert mine.sent == []
    relayed(mine, (report, None))
    assert len(mine.sent) == len(mine.roles) > FEW


def decided(tips: dict[PeerId, tuple[int, DecisionId]]) -> dict[PeerId, type]:
    """What each neighbour of a validator that has adopted a decision is told."""
    mine = Wire({OTHERS[0]: "validator", AUTHOR: "trainer", STRANGER.peer: "viewer"})
    neighbours = Neighbours(mine)
    for peer, (height, decision) in tips.items():
        neighbours.heard_tip(peer, height, decision)
    tip = dump_talk(Tip(SETTING.revision.id, 2, SECOND.id))
    neighbours.tell_decided(
        Decided(SETTING.revision.id, 2, SECOND.id, b"record"),
        tip,
        lambda peer: peer in (ME, *OTHERS),
    )
    return {peer: type(talk) for peer, talk in mine.sent}


def test_followers_are_handed_what_was_decided_and_validators_are_told() -> None:
    assert decided({}) == {OTHERS[0]: Tip, AUTHOR: Decided, STRANGER.peer: Decided}


def test_who_has_said_that_it_is_as_far_or_further_is_not_told() -> None:
    here, further, behind = (2, SECOND.id), (3, FIRST.id), (1, FIRST.id)
    told = decided({OTHERS[0]: here, AUTHOR: further, STRANGER.peer: behind})
    assert told == {STRANGER.peer: Decided}


def test_i01_who_has_decided_otherwise_is_told() -> None:
    assert OTHERS[0] in decided({OTHERS[0]: (2, GENESIS.id)})


def test_votes_of_a_height_that_is_decided_are_not_passed_on() -> None:
    mine = wire()
    vote = prevote(2, VALIDATORS[1], value=SECOND.id)
    work = update(FIRST, TRAINERS[0])

    async def main() -> None:
        relays = Relays(ME, Neighbours(mine))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relays.run)
            for one in (vote, work):
                relays.add(one, one.signer)
            relays.decided(vote.scope.height)
            await trio.sleep(PAUSE_S)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))
    assert all(mine.objects(other) == [work] for other in OTHERS[1:])
