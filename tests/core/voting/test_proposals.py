import pytest

from p2pd.core.encoding import decode, encode
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND
from p2pd.core.voting.proposals import PROPOSAL, Proposal, backed_value
from p2pd.errors import RemoteError
from tests.core.voting.making import (
    A_CHOICES,
    FOUR,
    HEIGHT,
    SCOPE,
    A,
    B,
    Signer,
    precommit,
    prevote,
    proposal,
    scope_of,
)

QUORUM = tuple(prevote(FOUR, who, 1, A) for who in (0, 1, 2))


def test_a_fresh_proposal_is_backed_by_nothing() -> None:
    assert backed_value(FOUR, SCOPE, proposal(FOUR, 2, A_CHOICES)) is None


def test_a_carried_quorum_backs_its_decision() -> None:
    assert backed_value(FOUR, SCOPE, proposal(FOUR, 2, A_CHOICES, 1, QUORUM)) == A


def test_a_carried_quorum_may_rest_on_earlier_ones_that_it_brings() -> None:
    later = tuple(prevote(FOUR, who, 4, A, 1) for who in (1, 2, 3))
    assert backed_value(FOUR, SCOPE, proposal(FOUR, 5, A_CHOICES, 4, QUORUM + later)) == A
    with pytest.raises(RemoteError, match="lacks the quorum of round 4"):
        backed_value(FOUR, SCOPE, proposal(FOUR, 5, A_CHOICES, 4, QUORUM[:2] + later))


@pytest.mark.parametrize(
    "quorum",
    [
        QUORUM[:2],
        (*QUORUM[:2], QUORUM[1]),
        (*QUORUM[:2], prevote(FOUR, 2, 1, B)),
        (*QUORUM[:2], precommit(FOUR, 2, 1, A)),
        tuple(prevote(FOUR, who, 1, None) for who in (0, 1, 2)),
        tuple(prevote(FOUR, who, 0, A) for who in (0, 1, 2)),
        (*QUORUM[:2], prevote(FOUR, 2, 1, A, 0)),
    ],
)
def test_what_does_not_amount_to_a_quorum_is_malformed(quorum: tuple[Signed, ...]) -> None:  # type: ignore[type-arg]
    with pytest.raises(RemoteError):
        backed_value(FOUR, SCOPE, proposal(FOUR, 2, A_CHOICES, 1, quorum))


def test_i03_a_proposal_is_taken_from_its_proposer_for_its_height_only() -> None:
    right = proposal(FOUR, 2, A_CHOICES)
    with pytest.raises(RemoteError, match="not by its proposer"):
        backed_value(FOUR, SCOPE, Signer(FOUR.rows[1].key)(PROPOSAL, SCOPE, right.content))
    with pytest.raises(RemoteError, match="elsewhere"):
        backed_value(FOUR, scope_of(HEIGHT + 1), right)


@pytest.mark.parametrize(
    ("round_", "pol", "quorum"), [(0, 0, QUORUM), (1, 1, QUORUM), (2, NO_ROUND, QUORUM), (2, 1, ())]
)
def test_i03_malformed_proposals_do_not_decode(
    round_: int,
    pol: int,
    quorum: tuple[Signed, ...],  # type: ignore[type-arg]
) -> None:
    with pytest.raises(ValueError, match="pol"):
        Proposal(round_, pol, A_CHOICES, quorum)
    plain = (round_, pol, A_CHOICES, quorum)
    with pytest.raises(RemoteError, match="pol"):
        decode(Proposal, encode(plain))


def test_a_proposal_survives_its_encoding() -> None:
    signed = proposal(FOUR, 2, A_CHOICES, 1, QUORUM)
    assert decode(Signed[Proposal], encode(signed)) == signed
