"""Validators that vote on one height over a bad network, in virtual time, from one seed. Units: seconds.

The machines are the real ones; checks, fetches and liars are made up. Choices are what they decide: the id of
a decision is their digest.
"""

import heapq
from collections.abc import Callable
from random import Random

from p2pd.core.ids import DecisionId, PeerId, PublicKey, peer_id
from p2pd.core.signed import Signed
from p2pd.core.votes import Certificate
from p2pd.core.voting.certificate import check_certificate
from p2pd.core.voting.evidence import Evidence, check_evidence
from p2pd.core.voting.proposals import PROPOSAL
from tests.core.voting.liar import Liar, Plan
from tests.core.voting.making import scope_of, weighted_members
from tests.core.voting.simulated import Message, Node


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
