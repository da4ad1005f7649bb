from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.encoding import decode, encode
from p2pd.core.signed import Signed
from p2pd.core.votes import Reason, ReasonKind, Step, Vote
from p2pd.core.voting.evidence import Evidence, check_evidence, find_evidence
from p2pd.core.voting.tally import Tally
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    FOUR,
    HEIGHT,
    A,
    B,
    objection,
    precommit,
    prevote,
    proposal,
    scope_of,
    unit_members,
)

GUILTY = [
    (prevote(FOUR, 1, 0, A), prevote(FOUR, 1, 0, B)),
    (prevote(FOUR, 1, 0, A), prevote(FOUR, 1, 0, None)),
    (prevote(FOUR, 1, 2, A, 0), prevote(FOUR, 1, 2, A, 1)),
    (objection(FOUR, 1, 0, Reason(ReasonKind.SLOW, b"", 0)), prevote(FOUR, 1, 0, None)),
    (precommit(FOUR, 1, 3, A), precommit(FOUR, 1, 3, None)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 4, B)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 7, B, 2)),
]
INNOCENT = [
    (prevote(FOUR, 1, 0, A), prevote(FOUR, 1, 0, A)),
    (prevote(FOUR, 1, 0, A), prevote(FOUR, 2, 0, B)),
    (prevote(FOUR, 1, 0, A), prevote(FOUR, 1, 1, B)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 7, B, 3)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 7, B, 5)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 7, A)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 7, None)),
    (precommit(FOUR, 1, 3, None), prevote(FOUR, 1, 7, B)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 3, B)),
    (precommit(FOUR, 1, 3, A), prevote(FOUR, 1, 2, B)),
]


@pytest.mark.parametrize("pair", GUILTY)
def test_i01_two_votes_that_break_the_rules_name_their_signer(
    pair: tuple[Signed[Vote], Signed[Vote]],
) -> None:
    assert check_evidence(FOUR, Evidence(pair, ())) == FOUR.rows[1].peer


@pytest.mark.parametrize("pair", INNOCENT)
def test_i01_two_votes_that_keep_the_rules_name_nobody(
    pair: tuple[Signed[Vote], Signed[Vote]],
) -> None:
    assert check_evidence(FOUR, Evidence(pair, ())) is None


@pytest.mark.parametrize("pair", GUILTY)
@pytest.mark.parametrize("order", [1, -1])
def test_evidence_is_found_in_whatever_order_the_votes_come(
    pair: tuple[Signed[Vote], Signed[Vote]], order: int
) -> None:
    tally = Tally(FOUR, HEIGHT)
    first, second = pair[::order]
    assert find_evidence(tally, first) is None
    tally.add(first)
    evidence = find_evidence(tally, second)
    assert evidence is not None
    assert check_evidence(FOUR, evidence) == FOUR.rows[1].peer


def test_two_proposals_of_one_round_name_their_signer() -> None:
    pair = (proposal(FOUR, 1, A_CHOICES), proposal(FOUR, 1, B_CHOICES))
    assert check_evidence(FOUR, Evidence((), pair)) == FOUR.rows[1].peer
    assert check_evidence(FOUR, Evidence((), pair[:1] * 2)) is None
    assert check_evidence(FOUR, Evidence((), (pair[0], proposal(FOUR, 5, B_CHOICES)))) is None


def test_evidence_holds_inside_one_place_and_against_members_only() -> None:
    first, second = GUILTY[0]
    moved = replace(second, scope=scope_of(HEIGHT + 1))
    assert check_evidence(FOUR, Evidence((first, moved), ())) is None
    mixed = replace(second, kind="proposal")
    assert check_evidence(FOUR, Evidence((first, mixed), ())) is None
    others = unit_members(9, 7)
    assert FOUR.rows[1].key in others.weights
    suspended = type(FOUR).of(FOUR.rows, 3, suspended={FOUR.rows[1].key})
    assert check_evidence(suspended, Evidence((first, second), ())) is None


def test_evidence_is_two_votes_or_two_proposals() -> None:
    with pytest.raises(ValueError, match="two votes or two proposals"):
        Evidence(GUILTY[0][:1], ())
    with pytest.raises(ValueError, match="two votes or two proposals"):
        Evidence(GUILTY[0], (proposal(FOUR, 1, A_CHOICES),) * 2)


def test_evidence_survives_its_encoding() -> None:
    for evidence in (
        Evidence(GUILTY[5], ()),
        Evidence((), (proposal(FOUR, 1, A_CHOICES), proposal(FOUR, 1, B_CHOICES))),
    ):
        assert decode(Evidence, encode(evidence)) == evidence


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Step.PREVOTE, Step.PRECOMMIT]),
            st.integers(0, 4),
            st.sampled_from([A, B, None]),
            st.integers(-1, 3),
        ),
        max_size=8,
    )
)
def test_what_is_found_is_always_evidence(
    drawn: list[tuple[Step, int, bytes | None, int]],
) -> None:
    tally = Tally(FOUR, HEIGHT)
    for step, round_, value, just in drawn:
        rests = step == Step.PREVOTE and value is not None
        make = prevote if step == Step.PREVOTE else precommit
        vote = (
            prevote(FOUR, 2, round_, value, min(just, round_ - 1))  # type: ignore[arg-type]  # ids are bytes
            if rests
            else make(FOUR, 2, round_, value)  # type: ignore[arg-type]  # ids are bytes
        )
        evidence = find_evidence(tally, vote)
        if evidence is not None:
            assert check_evidence(FOUR, evidence) == FOUR.rows[2].peer
        tally.add(vote)
