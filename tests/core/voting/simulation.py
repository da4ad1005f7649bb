"""Validators that vote on one height over a bad network, in virtual time, from one seed. Units: seconds.

The machines are the real ones; checks, fetches and liars are made up. Choices are what they decide: the id of
a decision is their digest.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import assert_never

from p2pd.core.ids import DecisionId, PeerId, PublicKey, peer_id
from p2pd.core.signed import Signed
from p2pd.core.votes import Certificate, Reason, ReasonKind, Vote
from p2pd.core.voting.certificate import check_certificate
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
from p2pd.core.voting.evidence import Evidence, check_evidence
from p2pd.core.voting.exchange import Inventory
from p2pd.core.voting.machine import Machine
from p2pd.core.voting.proposals import PROPOSAL, Proposal
from p2pd.core.voting.rules import Setup
from p2pd.core.voting.timers import CheckTimes
from tests.core.voting.liar import GONE, Liar, Plan
from tests.core.voting.making import UNDECIDED, Signer, scope_of, value_of, weighted_members

Message = Signed[Vote] | Signed[Proposal] | Inventory | Certificate


def seen(message: Signed[Vote] | Signed[Proposal] | Certificate) -> Event:
    if isinstance(message, Certificate):
        return CertificateSeen(message)
    if isinstance(message.content, Vote):
        return VoteSeen(message)
    return ProposalSeen(message)


class Simulation:
    def __init__(self, seed: int, plan: Plan) -> None:
        self.random = Random(seed)
        self.plan = plan
        self.members = weighted_members(plan.weights or (1,) * plan.count, plan.quorum)
        self.scope = scope_of(self.random.randrange(100))
        self.now_s = 0.0
        self.calm_s = self.random.uniform(0, 25) if plan.calm_s is None else plan.calm_s
        self.evidence: list[Evidence] = []
        self.certificates: list[Certificate] = []
        self.foreign: list[PublicKey] = []
        self.forks = 0
        self.accepts: dict[tuple[PublicKey, bytes], bool] = {}
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._side = [self.random.randrange(2) for _ in range(plan.count)]
        self._split = self.random.random() < 0.5
        keys = [member.key for member in self.members.rows]
        self.liar = Liar(self, keys.pop()) if plan.liar else None
        self.nodes = [Node(self, key) for key in keys]
        self._schedule_faults()

    def _schedule_faults(self) -> None:
        plan, draw = self.plan, self.random
        for node in self.nodes:
            self.at(draw.uniform(0, plan.closing_s), node.close)
            self.at(draw.uniform(0, 1), node.gossip)
        victims = draw.sample(self.nodes, min(len(self.nodes), plan.crashes + plan.restarts))
        for node in victims[: plan.crashes]:
            self.at(draw.uniform(0, self.calm_s + 10), node.kill)
        for node in victims[plan.crashes :]:
            for _ in range(draw.randint(1, 2)):
                if draw.random() < 0.5:
                    node.dies_at_send = draw.randint(1, 6)
                else:
                    self.at(draw.uniform(0, self.calm_s + 10), node.restart)
        if plan.late_crash:
            self.at(self.calm_s, self.nodes[-1].kill)
        if self.liar:
            self.at(0.5, self.liar.act)

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now_s + delay_s, self._count, action))

    def run(self) -> "Simulation":
        end_s = self.calm_s + self.plan.patience_s
        while self._heap and not all(node.finished for node in self.nodes):
            self.now_s, _, action = heapq.heappop(self._heap)
            if self.now_s > end_s:
                break
            action()
        return self

    def send(self, source: PublicKey, target: "Node", message: Message) -> None:
        plan, draw = self.plan, self.random
        calm = self.now_s >= self.calm_s
        first = self.members.rows[0].key
        deaf_until_s = self.calm_s + plan.isolated_s if plan.isolated_s else 0.0
        if first in (source, target.key) and self.now_s < deaf_until_s:
            return
        proposal = isinstance(message, Signed) and message.kind == PROPOSAL
        if not calm and plan.proposals_lost and proposal:
            return
        places = self.members.positions
        apart = self._split and self._side[places[source]] != self._side[places[target.key]]
        if not calm and (draw.random() < plan.loss or apart):
            return
        self.at(draw.uniform(0.01, 0.1 if calm else 3), lambda: target.hear(source, message))

    def broadcast(self, source: PublicKey, message: Message) -> None:
        for node in self.nodes:
            if node.key != source:
                self.send(source, node, message)

    def served(self, value: DecisionId) -> bytes | None:
        """Choices of a decision, from any running node that has them, or from the liar."""
        for node in self.nodes:
            if node.running and value in node.bodies:
                return node.bodies[value]
        return self.liar.bodies.get(value) if self.liar else None

    # What came of it

    @property
    def values(self) -> set[DecisionId]:
        return {certificate.value for certificate in self.certificates}

    def accused(self) -> set[PeerId]:
        named = set()
        for evidence in self.evidence:
            guilty = check_evidence(self.members, evidence)
            assert guilty is not None, "evidence that shows nothing"
            named.add(guilty)
        return named

    def check_safety(self) -> None:
        """One decision, whose certificates hold; nobody honest accused."""
        for certificate in self.certificates:
            check_certificate(self.members, self.scope, certificate)
        assert len(self.values) <= 1
        assert not self.forks
        assert not self.foreign
        assert self.accused() <= ({peer_id(self.liar.key)} if self.liar else set())

    def check(self) -> None:
        self.check_safety()
        assert [node.machine.view() for node in self.nodes if not node.finished] == []


@dataclass
class Node:
    simulation: Simulation
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
