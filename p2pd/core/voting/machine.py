"""The voting of one height, from its first message to its certificate.

Units: seconds. Source: docs/decision-protocol.md, section 4.
"""

from typing import assert_never

from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.signed import Signed
from p2pd.core.votes import Certificate, Step, Vote
from p2pd.core.voting.box import Box
from p2pd.core.voting.certificate import check_certificate
from p2pd.core.voting.durable import Memory
from p2pd.core.voting.events import (
    Accuse,
    BodyChecked,
    Built,
    CertificateSeen,
    Checked,
    Close,
    Defence,
    Effect,
    Event,
    Forked,
    Objection,
    PeerHeard,
    ProposalSeen,
    Resumed,
    View,
    VoteSeen,
)
from p2pd.core.voting.exchange import Inventory
from p2pd.core.voting.proposals import Proposal
from p2pd.core.voting.results import Results
from p2pd.core.voting.rules import Rules, Setup
from p2pd.errors import RemoteError


class Machine:
    def __init__(self, setup: Setup, stored: bytes | None = None) -> None:
        """stored: what Persist said last of this height; the first event is then Resumed.

        Raises LocalError if stored is damaged or of another place.
        """
        self._members, self._scope, self._me = setup.members, setup.scope, setup.me
        counting = Defence.COUNTING not in setup.defences_off
        self._box = Box(setup.members, setup.scope, counting=counting)
        self._results = Results(setup.checks, setup.undecided)
        self._public: set[bytes] = set()
        """Ids of my own messages that have come back, or were stored: they are durable, and may be shown."""
        if stored is None:
            self._memory = Memory(setup.scope)
        else:
            self._memory = Memory.load(setup.scope, stored)
            self._remember(self._memory)
        self._rules = Rules(setup, self._box, self._results, self._memory)
        self._rules.listening = stored is not None

    def _remember(self, memory: Memory) -> None:
        self._box.tally.current = memory.position.round
        for backed in (memory.locked, memory.valid):
            if backed is not None:
                self._box.tally.add_all(backed.quorum)
                self._results.learn(backed.value, backed.choices, objective=True)
        self._box.tally.add_all(memory.votes())
        for proposal in memory.proposals():
            self._box.add_own_proposal(proposal)
        self._public.update(vote.id for vote in memory.votes())
        self._public.update(proposal.id for proposal in memory.proposals())

    # The face

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """What does not hold, or is of another place, changes nothing."""
        self._take(event, now_s)
        self._rules.settle(now_s)
        return self._taken_effects()

    def bound_to(self) -> tuple[bytes, ...]:
        """The choices behind what I am locked on, and behind what I would propose."""
        bound = (self._memory.locked, self._memory.valid)
        return tuple(dict.fromkeys(backed.choices for backed in bound if backed is not None))

    def next_deadline_s(self) -> float | None:
        return self._rules.next_deadline_s()

    def tick(self, now_s: float) -> list[Effect]:
        while (deadline_s := self._rules.next_deadline_s()) is not None and deadline_s <= now_s:
            self._rules.expire_next(now_s)
            self._rules.settle(now_s)
        return self._taken_effects()

    def _taken_effects(self) -> list[Effect]:
        effects, self._rules.effects = self._rules.effects, []
        return effects

    # Events

    def _take(self, event: Event, now_s: float) -> None:
        match event:
            case VoteSeen(vote):
                self._take_vote(vote)
            case ProposalSeen(proposal):
                self._take_proposal(proposal)
            case Checked():
                self._results.finish(event, now_s)
            case BodyChecked(value, choices, objective):
                self._results.learn(value, choices, objective=objective)
            case Built(round_, choices):
                self._rules.built(round_, choices)
            case Close():
                self._rules.close()
            case CertificateSeen(certificate):
                self._take_certificate(certificate)
            case Resumed():
                self._rules.listen(now_s)
            case PeerHeard(peer):
                self._rules.hear(peer, now_s)
            case _:
                assert_never(event)

    def _take_vote(self, vote: Signed[Vote]) -> None:
        if not self._box.belongs(vote):
            return
        evidence = self._box.add_vote(vote)
        if vote.author == self._me:
            self._public.add(vote.id)
            mine = self._memory.vote(vote.content.step, vote.content.round)
            if mine is None or mine.content != vote.content:
                self._rules.mute(vote)
        elif evidence is not None:
            self._rules.effects.append(Accuse(evidence))

    def _take_proposal(self, proposal: Signed[Proposal]) -> None:
        try:
            evidence = self._box.add_proposal(proposal)
        except RemoteError:
            return  # dropped: no timer stops for it
        if proposal.author == self._me:
            self._public.add(proposal.id)
            mine = self._memory.proposal(proposal.content.round)
            if mine is None or mine.content != proposal.content:
                self._rules.mute(proposal)
        elif evidence is not None:
            self._rules.effects.append(Accuse(evidence))
        for vote in proposal.content.quorum:
            self._take_vote(vote)

    def _take_certificate(self, certificate: Certificate) -> None:
        first = self._rules.certificate
        if first is not None and first.value == certificate.value:
            return
        try:
            check_certificate(self._members, self._scope, certificate)
        except RemoteError:
            return
        if first is None:
            self._rules.decide(certificate)
        else:
            self._rules.effects.append(Forked(first, certificate))
        for vote in certificate.prevotes + certificate.precommits:
            self._take_vote(vote)

    # Questions

    def inventory(self) -> Inventory:
        """What I hold of the rounds in play, to be shown to a peer."""
        return self._box.exchange.inventory(self._in_play())

    def missing(self, theirs: Inventory) -> list[Signed[Vote] | Signed[Proposal]]:
        """What to send to the peer that showed this inventory.

        Nothing of mine that has not been sent to all yet: it may not be durable, and a crash would
        make me forget what I signed.
        """
        return [
            message
            for message in self._box.exchange.missing(self._in_play(), theirs)
            if message.author != self._me or message.id in self._public
        ]

    def _in_play(self) -> list[int]:
        here, locked, valid = self._memory.position, self._memory.locked, self._memory.valid
        backed = [each.round for each in (locked, valid) if each is not None]
        return [here.round, here.round - 1, *backed]

    def objections(self) -> list[Objection]:
        """Why others, and I, prevoted nil at this height: for build() and for grounds."""
        return self._box.objections()

    def holders(self, value: DecisionId) -> tuple[PeerId, ...]:
        """Who can serve a decision of this height by now."""
        return self._box.holders(value)

    @property
    def listening(self) -> bool:
        return self._rules.listening

    @property
    def certificate(self) -> Certificate | None:
        return self._rules.certificate

    def view(self) -> View:
        here, locked, valid = self._memory.position, self._memory.locked, self._memory.valid
        return View(
            height=self._scope.height,
            round=here.round,
            step=here.step,
            proposer=self._members.proposer(self._scope.height, here.round).peer,
            closed=here.closed,
            listening=self._rules.listening,
            muted=here.muted,
            locked=(locked.value, locked.round) if locked else None,
            valid=(valid.value, valid.round) if valid else None,
            prevoted=self._box.tally.any_weight(Step.PREVOTE, here.round),
            precommitted=self._box.tally.any_weight(Step.PRECOMMIT, here.round),
            quorum=self._members.quorum,
            silent=self._box.silent(here.round),
            decided=self._rules.certificate.value if self._rules.certificate else None,
        )
