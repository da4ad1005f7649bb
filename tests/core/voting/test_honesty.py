"""Whatever a validator is told, in whatever order, and however often it crashes: it contradicts nothing it sent."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.events import (
    Accuse,
    CertificateSeen,
    Effect,
    ForeignVote,
    Judgement,
    Persist,
    Send,
)
from p2pd.core.voting.proposals import Proposal
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    FOUR,
    UNDECIDED,
    A,
    B,
    Bench,
    E,
    certificate,
    prevote,
    proposal,
    vote,
)
from tests.core.voting.search import check_honest

ME = 2
rounds = st.integers(0, 3) | st.integers(4, 14)
others = st.sampled_from([0, 1, 3])
values = st.sampled_from([A, B, E])
choices_of = {A: A_CHOICES, B: B_CHOICES, E: UNDECIDED}


class Honesty(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(FOUR, ME)
        self.stored: bytes | None = None
        self.votes: dict[tuple[Step, int], Signed[Vote]] = {}
        self.proposals: dict[int, Signed[Proposal]] = {}

    def watch(self, effects: list[Effect]) -> None:
        fresh = False
        for effect in effects:
            assert not isinstance(effect, ForeignVote)
            if isinstance(effect, Persist):
                self.stored, fresh = effect.state, True
            elif isinstance(effect, Send):
                assert self.known(effect.message) or fresh, "sent before it was stored"
                fresh = False
            else:
                assert (
                    not isinstance(effect, Accuse)
                    or not effect.evidence.votes
                    or (effect.evidence.votes[0].author != FOUR.rows[ME].key)
                )
        check_honest(list(self.votes.values()))

    def known(self, message: Signed[Vote] | Signed[Proposal]) -> bool:
        """Notes what is new, and that nothing is said in two ways."""
        if isinstance(message.content, Vote):
            place = (message.content.step, message.content.round)
            known = place in self.votes
            assert self.votes.setdefault(place, message) == message
        else:
            known = message.content.round in self.proposals
            assert self.proposals.setdefault(message.content.round, message) == message
        return known

    @rule()
    def close(self) -> None:
        self.watch(self.bench.close())

    @rule(
        who=others,
        step=st.sampled_from([Step.PREVOTE, Step.PRECOMMIT]),
        round_=rounds,
        value=values | st.none(),
        just=st.integers(-1, 6),
    )
    def hear_vote(
        self, who: int, step: Step, round_: int, value: DecisionId | None, just: int
    ) -> None:
        rests = step == Step.PREVOTE and value is not None
        backed = min(just, round_ - 1) if rests else NO_ROUND
        self.watch(self.bench.hear(vote(FOUR, who, step, round_, value, backed)))

    @rule(value=values | st.none(), ahead=st.integers(-1, 1))
    def hear_quorum(self, value: DecisionId | None, ahead: int) -> None:
        round_ = max(0, self.bench.machine.view().round + ahead)
        self.watch(self.bench.prevotes(round_, value, 0, 1, 3))

    @rule()
    def hear_the_round_end(self) -> None:
        self.watch(self.bench.precommits(self.bench.machine.view().round, None, 0, 1, 3))

    @rule(value=values, pol=st.integers(-1, 5), ahead=st.integers(0, 1))
    def hear_proposal(self, value: DecisionId, pol: int, ahead: int) -> None:
        round_ = self.bench.machine.view().round + ahead
        pol = min(pol, round_ - 1)
        quorum = tuple(prevote(FOUR, who, pol, value) for who in (0, 1, 3)) if pol >= 0 else ()
        if round_ % 4 != ME:
            self.watch(self.bench.hear(proposal(FOUR, round_, choices_of[value], pol, quorum)))

    @rule(value=values, judgement=st.sampled_from(Judgement), objective=st.booleans())
    def check(self, value: DecisionId, judgement: Judgement, objective: bool) -> None:
        effects = self.bench.checked(choices_of[value], judgement, objective=objective)
        self.watch(effects)

    @rule(value=values)
    def fetch(self, value: DecisionId) -> None:
        self.watch(self.bench.fetched(choices_of[value]))

    @rule(value=values)
    def build(self, value: DecisionId) -> None:
        self.watch(self.bench.built(self.bench.machine.view().round, choices_of[value]))

    @rule(duration_s=st.sampled_from([0.5, 1.0, 3.0, 12.0, 61.0]))
    def wait(self, duration_s: float) -> None:
        self.watch(self.bench.wait(duration_s))

    @rule()
    def crash(self) -> None:
        self.bench = Bench(FOUR, ME, now_s=self.bench.now_s + 1.0, stored=self.stored)
        self.watch(self.bench.resume())

    @rule(echo=st.booleans())
    def hear_myself(self, echo: bool) -> None:
        said: list[Signed[Vote] | Signed[Proposal]] = [
            *self.votes.values(),
            *self.proposals.values(),
        ]
        self.watch(self.bench.hear(*said[:: -1 if echo else 1]))

    @rule()
    def hear_a_certificate_for_another_place(self) -> None:
        short = certificate(FOUR, A, 0, 0, 1)
        self.watch(self.bench.machine.handle(CertificateSeen(short), self.bench.now_s))


TestHonesty = Honesty.TestCase
TestHonesty.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
