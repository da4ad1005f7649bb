import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.certificate import check_certificate
from p2pd.core.voting.quorums import quorate_rounds
from p2pd.core.voting.tally import AHEAD, FAR_ROUNDS, FAR_VOTES, FREE_VALUES, VOTE_STEPS, Tally
from tests.core.voting.making import (
    FOUR,
    HEIGHT,
    SCOPE,
    A,
    B,
    precommit,
    prevote,
    vote,
    weighted_members,
)

C = DecisionId(b"c" * 32)


def tally_of(*votes: Signed[Vote]) -> Tally:
    tally = Tally(FOUR, HEIGHT)
    tally.add_all(votes)
    return tally


def test_a_prevote_that_rests_on_a_quorum_counts_only_beside_it() -> None:
    tally = tally_of(*(prevote(FOUR, who, 3, A, 1) for who in range(4)))
    assert tally.quorums(3) == []
    assert tally.any_weight(Step.PREVOTE, 3) == 4
    tally.add_all(prevote(FOUR, who, 1, A) for who in (0, 1))
    assert tally.quorums(3) == []
    tally.add(prevote(FOUR, 2, 1, A))
    assert tally.quorums(1) == tally.quorums(3) == [A]


def test_a_quorum_at_the_bottom_brings_up_all_that_rests_on_it() -> None:
    tally = tally_of(
        *(prevote(FOUR, who, 5, A, 3) for who in (0, 1, 2)),
        *(prevote(FOUR, who, 3, A, 1) for who in (1, 2, 3)),
        *(precommit(FOUR, who, 5, A) for who in (0, 1, 2)),
    )
    assert tally.certified is None
    tally.add_all(prevote(FOUR, who, 1, A) for who in (0, 1, 2))
    assert tally.certified == (A, 5)
    check_certificate(FOUR, SCOPE, tally.certificate(A, 5))
    assert len(tally.certificate(A, 5).prevotes) == 9


def test_a_quorum_for_another_decision_justifies_nothing() -> None:
    tally = tally_of(
        *(prevote(FOUR, who, 1, B) for who in range(4)),
        *(prevote(FOUR, who, 3, A, 1) for who in range(4)),
    )
    assert tally.quorums(3) == []


def test_a_key_counts_once_however_often_it_votes() -> None:
    tally = tally_of(
        prevote(FOUR, 0, 4, A),
        prevote(FOUR, 0, 4, A, 1),
        prevote(FOUR, 0, 4, B),
        prevote(FOUR, 1, 4, A),
    )
    assert tally.any_weight(Step.PREVOTE, 4) == 2
    assert tally.quorums(4) == []
    tally.add(prevote(FOUR, 3, 4, A))
    assert tally.quorums(4) == [A]


def test_i09_a_third_value_of_a_key_needs_others_who_voted_for_it() -> None:
    tally = tally_of(prevote(FOUR, 0, 0, A), prevote(FOUR, 0, 0, B))
    assert not tally.add(prevote(FOUR, 0, 0, C))
    tally.add(prevote(FOUR, 1, 0, C))
    assert not tally.add(prevote(FOUR, 0, 0, C))
    tally.add(prevote(FOUR, 2, 0, C))
    assert tally.add(prevote(FOUR, 0, 0, C))
    assert tally.quorums(0) == [C]


def test_a_quorum_that_comes_whole_is_taken_in_any_order() -> None:
    tally = tally_of(prevote(FOUR, 0, 0, A), prevote(FOUR, 0, 0, B))
    tally.add_all(prevote(FOUR, who, 0, C) for who in (0, 1, 2))
    assert tally.quorums(0) == [C]


def test_i09_of_rounds_far_ahead_a_key_keeps_its_two_highest() -> None:
    tally = tally_of(*(prevote(FOUR, 1, round_, None) for round_ in range(5, 30)))
    assert sorted(tally.rounds_between(NO_ROUND, None)) == [5, 6, 7, 8, 28, 29]
    assert not tally.add(prevote(FOUR, 1, 9, None))
    tally.current = 2
    assert tally.add(prevote(FOUR, 1, 9, None))


def test_i09_a_key_cannot_fill_a_round_far_ahead_with_justs() -> None:
    tally = tally_of(*(prevote(FOUR, 1, 10**9, A, just) for just in range(1000)))
    assert len(list(tally.votes_in(10**9))) == FAR_VOTES


def test_i09_votes_dropped_from_afar_leave_nothing_behind() -> None:
    tally = tally_of(*(prevote(FOUR, 1, round_, A, 7) for round_ in range(100, 400)))
    assert sum(len(waiting) for waiting in tally._waiting.values()) == FAR_ROUNDS


def test_what_rests_on_a_dropped_quorum_no_longer_counts() -> None:
    tally = tally_of(
        *(prevote(FOUR, who, 10, A) for who in (0, 1, 2)),
        *(prevote(FOUR, who, 12, A, 10) for who in (0, 1, 2)),
    )
    assert tally.quorums(12) == [A]
    tally.add(prevote(FOUR, 0, 13, None))
    assert tally.quorums(10) == tally.quorums(12) == []
    tally.current = 5
    tally.add(prevote(FOUR, 0, 10, A))
    assert tally.quorums(10) == tally.quorums(12) == [A]


@pytest.mark.parametrize("extra", [precommit(FOUR, 3, 2, A), prevote(FOUR, 3, 2, None)])
def test_a_round_is_loud_by_any_message_and_each_key_once(extra: Signed[Vote]) -> None:
    tally = tally_of(prevote(FOUR, 1, 2, A), precommit(FOUR, 1, 2, None))
    assert tally.loudest_round() == NO_ROUND
    tally.add(extra)
    assert tally.loudest_round() == 2


def test_a_proposal_is_a_message_too() -> None:
    tally = tally_of(prevote(FOUR, 1, 2, A))
    tally.hear_proposal(FOUR.rows[2].key, 2)
    assert tally.loudest_round() == 2


def test_weights_are_counted_and_not_keys() -> None:
    members = weighted_members([3, 1, 1, 1], 4)
    tally = Tally(members, HEIGHT)
    tally.add_all(prevote(members, who, 0, A) for who in (1, 2, 3))
    assert tally.quorums(0) == []
    tally.add(prevote(members, 0, 0, A))
    assert tally.quorums(0) == [A]
    assert [vote.author for vote in tally.closure(0, A)] == [row.key for row in members.rows[:2]]


def test_hopeless_is_when_the_missing_cannot_help_anybody() -> None:
    tally = tally_of(prevote(FOUR, 0, 0, A), prevote(FOUR, 1, 0, None))
    assert not tally.hopeless(0)
    tally.add(prevote(FOUR, 2, 0, B))
    assert tally.hopeless(0)


votes = st.builds(
    lambda who, step, round_, value, just: vote(
        FOUR,
        who,
        step,
        round_,
        value,
        min(just, round_ - 1) if step == Step.PREVOTE and value else NO_ROUND,
    ),
    st.integers(0, 3),
    st.sampled_from(VOTE_STEPS),
    st.integers(0, 3) | st.integers(8, 13),
    st.sampled_from([A, A, B, C, None]),
    st.just(NO_ROUND) | st.integers(-1, 12),
)


class Twins(RuleBasedStateMachine):
    """The tally agrees with a plain count over the votes that it holds, and holds no more than it may."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally(FOUR, HEIGHT)
        self.certified = False

    @rule(batch=st.lists(votes, min_size=1, max_size=6))
    def add(self, batch: list[Signed[Vote]]) -> None:
        self.tally.add_all(batch)

    @rule(round_=st.integers(0, 3), value=st.sampled_from([A, B]), just=st.integers(-1, 2))
    def agree(self, round_: int, value: DecisionId, just: int) -> None:
        for who in (0, 1, 2):
            self.tally.add(prevote(FOUR, who, round_, value, min(just, round_ - 1)))

    @rule()
    def move(self) -> None:
        self.tally.current += 1

    def held(self) -> list[Signed[Vote]]:
        rounds = self.tally.rounds_between(NO_ROUND, None)
        return [signed for round_ in rounds for signed in self.tally.votes_in(round_)]

    def plain_quorums(self, value: DecisionId) -> set[int]:
        quorate = {NO_ROUND}
        for round_ in range(14):
            keys = {
                signed.author
                for signed in self.held()
                if signed.content.step == Step.PREVOTE
                and (signed.content.round, signed.content.value) == (round_, value)
                and signed.content.just in quorate
            }
            if len(keys) >= FOUR.quorum:
                quorate.add(round_)
        return quorate - {NO_ROUND}

    @invariant()
    def counts_agree(self) -> None:
        held = self.held()
        for value in (A, B, C):
            quorate = self.plain_quorums(value)
            assert {r for r in range(14) if value in self.tally.quorums(r)} == quorate
            for round_ in quorate:
                closure = self.tally.closure(round_, value)
                assert round_ in quorate_rounds(FOUR, closure)
            self.certified |= any(
                len({s.author for s in held if s.content == precommit(FOUR, 0, r, value).content})
                >= FOUR.quorum
                for r in quorate
            )
        assert self.certified == (self.tally.certified is not None)
        for round_ in range(14):
            for step in VOTE_STEPS:
                keys = {
                    s.author for s in held if (s.content.round, s.content.step) == (round_, step)
                }
                assert self.tally.any_weight(step, round_) == len(keys)

    @invariant()
    def limits_hold(self) -> None:
        for member in FOUR.rows:
            mine = [s.content for s in self.held() if s.author == member.key]
            far = {content.round for content in mine if content.round > self.tally.current + AHEAD}
            assert len(far) <= FAR_ROUNDS
            for round_ in range(14):
                for step in VOTE_STEPS:
                    values = {c.value for c in mine if (c.round, c.step) == (round_, step)}
                    supported = sum(
                        len(self.tally.voters(step, round_, value)) > FOUR.attention
                        for value in values
                    )
                    assert len(values) <= FREE_VALUES + supported


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
