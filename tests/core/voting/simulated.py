"""A validator of a simulated height: the real machine, and made-up checks, fetches and crashes. Units: seconds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from p2pd.core.ids import DecisionId, PublicKey
from p2pd.core.signed import Signed
from p2pd.core.votes import Certificate, Reason, ReasonKind, Vote
from p2pd.core.voting.events import (
    Accuse,
    BodyChecked,
    Build,
    Built,
    CertificateSeen,
    Check,
    Checked,
    Close,
    Closed,
    Decided,
    Effect,
    Event,
    FetchValue,
    ForeignVote,
    Forked,
    Judgement,
    PeerHeard,
    Persist,
    ProposalSeen,
    Resumed,
    RoundStarted,
    Send,
    VoteSeen,
)
from p2pd.core.voting.exchange import Inventory
from p2pd.core.voting.machine import Machine
from p2pd.core.voting.proposals import Proposal
from p2pd.core.voting.rules import Setup
from p2pd.core.voting.timers import CheckTimes
from tests.core.voting.liar import GONE
from tests.core.voting.making import UNDECIDED, Signer, value_of

if TYPE_CHECKING:
    from tests.core.voting.simulation import Simulation

Message = Signed[Vote] | Signed[Proposal] | Inventory | Certificate


def seen(message: Signed[Vote] | Signed[Proposal] | Certificate) -> Event:
    if isinstance(message, Certificate):
        return CertificateSeen(message)
    if isinstance(message.content, Vote):
        return VoteSeen(message)
    return ProposalSeen(message)


@dataclass
class Node:
    simulation: "Simulation"
    key: PublicKey
    stored: bytes | None = None
    dead: bool = False
    down: bool = False
    decided: Certificate | None = None
    dies_at_send: int = 0
    sent: int = 0
    built: int = 0
    started: int = 0
    """How often the process started: what was under way before is over."""
    bodies: dict[DecisionId, bytes] = field(default_factory=dict)
    """Kept on disk."""
    queue: list[bytes] = field(default_factory=list)
    busy: bool = False
    wake_s: float | None = None

    def __post_init__(self) -> None:
        plan = self.simulation.plan
        self.check_s = self.simulation.random.uniform(*plan.check_s)
        self.bodies[value_of(UNDECIDED)] = UNDECIDED
        self.closed = False
        self.boot()

    def boot(self) -> None:
        plan = self.simulation.plan
        times = CheckTimes(plan.check_limit_s)
        if plan.recent_s is not None:
            for _ in range(8):
                times.add(plan.recent_s)
        setup = Setup(
            members=self.simulation.members,
            scope=self.simulation.scope,
            me=self.key,
            sign=Signer(self.key),
            checks=times,
            undecided=UNDECIDED,
            defences_off=plan.off,
        )
        self.machine = Machine(setup, self.stored)
        self.started += 1
        self.queue, self.busy, self.wake_s = [], False, None

    @property
    def running(self) -> bool:
        return not self.dead and not self.down

    @property
    def finished(self) -> bool:
        return self.dead or self.decided is not None

    # Faults

    def kill(self) -> None:
        self.dead = True

    def restart(self) -> None:
        if not self.running or self.decided:
            return
        self.down = True
        self.simulation.at(self.simulation.random.uniform(0.5, 5), self.up)

    def up(self) -> None:
        self.down = False
        self.boot()
        self.tell(Resumed())
        for member in self.simulation.members.rows:
            self.tell(PeerHeard(member.peer))
        if self.closed:
            self.tell(Close())

    # The world

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        started = self.started

        def act() -> None:
            if self.running and self.started == started and not self.decided:
                action()

        self.simulation.at(delay_s, act)

    def close(self) -> None:
        self.closed = True
        self.tell(Close())

    def tell(self, event: Event) -> None:
        if self.running and not self.decided:
            self.carry_out(self.machine.handle(event, self.simulation.now_s))

    def tick(self) -> None:
        deadline_s = self.machine.next_deadline_s()
        if deadline_s is None or deadline_s > self.simulation.now_s:
            return
        self.carry_out(self.machine.tick(self.simulation.now_s))

    def hear(self, source: PublicKey, message: Message) -> None:
        if not self.running:
            return
        if self.decided:
            if not isinstance(message, Certificate):
                self.answer(source, self.decided)
        elif isinstance(message, Inventory):
            for missing in self.machine.missing(message):
                self.answer(source, missing)
        else:
            self.tell(seen(message))

    def answer(self, target: PublicKey, message: Message) -> None:
        for node in self.simulation.nodes:
            if node.key == target:
                self.simulation.send(self.key, node, message)

    def gossip(self) -> None:
        if self.dead:
            return
        if self.running:
            said: list[Message] = [self.machine.inventory()]
            for message in [self.decided] if self.decided else said:
                self.simulation.broadcast(self.key, message)
        self.simulation.at(1.0, self.gossip)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not self.running:
                return
            self.carry_out_one(effect)
        deadline_s = self.machine.next_deadline_s()
        assert deadline_s is None or deadline_s > self.simulation.now_s
        if deadline_s is not None and deadline_s != self.wake_s:
            self.wake_s = deadline_s
            self.later(deadline_s - self.simulation.now_s + 1e-9, self.tick)

    def carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self.stored = state
            case Send(message):
                self.say(message)
            case Build(round_):
                self.later(0.05, lambda: self.build(round_))
            case Check(choices, _):
                self.enqueue(choices)
            case FetchValue(value, _):
                self.fetch(value)
            case _:
                self.note(effect)

    def note(self, effect: Decided | Forked | Accuse | Closed | RoundStarted | ForeignVote) -> None:
        match effect:
            case Decided(certificate):
                self.decided = certificate
                self.simulation.certificates.append(certificate)
            case Accuse(evidence):
                self.simulation.evidence.append(evidence)
            case Forked():
                self.simulation.forks += 1
            case ForeignVote():
                self.simulation.foreign.append(self.key)
            case Closed() | RoundStarted():
                pass
            case _:
                assert_never(effect)

    def say(self, message: Signed[Vote] | Signed[Proposal]) -> None:
        self.sent += 1
        if self.sent == self.dies_at_send:
            # Half of them die with the message stored and not sent, half with it sent and not heeded.
            if self.simulation.random.random() < 0.5:
                self.simulation.broadcast(self.key, message)
            self.restart()
            return
        self.simulation.broadcast(self.key, message)
        self.later(0.0, lambda: self.tell(seen(message)))

    def build(self, round_: int) -> None:
        self.built += 1
        choices = b"choices %d of round %d by " % (self.started * 100 + self.built, round_)
        self.tell(Built(round_, choices + self.key[:4]))

    # Checks: one at a time, the newest first

    def enqueue(self, choices: bytes) -> None:
        if choices == UNDECIDED:
            self.finish(choices)
        elif not choices.startswith(GONE):
            self.queue.append(choices)
            self.later(0.05, self.work)

    def work(self) -> None:
        if self.busy or not self.queue:
            return
        choices = self.queue.pop()
        self.busy = True
        self.later(self.check_s, lambda: self.end(choices))

    def end(self, choices: bytes) -> None:
        self.busy = False
        self.finish(choices)
        self.work()

    def finish(self, choices: bytes) -> None:
        value = value_of(choices)
        self.bodies[value] = choices
        fine = self.accepts(choices)
        reasons = () if fine else (Reason(ReasonKind.CANARY, value, 0),)
        judgement = Judgement.ACCEPT if fine else Judgement.REJECT
        self.tell(Checked(choices, value, True, judgement, reasons))

    def accepts(self, choices: bytes) -> bool:
        place = (self.key, choices)
        table = self.simulation.accepts
        if place not in table:
            mine = choices.endswith(self.key[:4]) or choices == UNDECIDED
            table[place] = mine or self.simulation.random.random() >= self.simulation.plan.rejects
        return table[place]

    def fetch(self, value: DecisionId) -> None:
        choices = self.simulation.served(value)
        if choices is None:
            self.later(0.5, lambda: self.fetch(value))
        elif choices == UNDECIDED:
            self.tell(BodyChecked(value, choices, True))
        else:
            self.later(self.check_s, lambda: self.fetched(value, choices))

    def fetched(self, value: DecisionId, choices: bytes) -> None:
        self.bodies[value] = choices
        self.tell(BodyChecked(value, choices, True))
