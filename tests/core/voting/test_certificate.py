from dataclasses import replace

import pytest

from p2pd.core.encoding import decode, encode
from p2pd.core.votes import Certificate
from p2pd.core.voting.certificate import check_certificate
from p2pd.errors import RemoteError
from tests.core.voting.making import (
    FOUR,
    HEIGHT,
    SCOPE,
    A,
    B,
    certificate,
    precommit,
    prevote,
    scope_of,
    unit_members,
)

RESTED = Certificate(
    A,
    5,
    tuple(precommit(FOUR, who, 5, A) for who in (0, 1, 2)),
    tuple(prevote(FOUR, who, 1, A) for who in (0, 1, 3))
    + tuple(prevote(FOUR, who, 3, A, 1) for who in (1, 2, 3))
    + tuple(prevote(FOUR, who, 5, A, just) for who, just in ((0, 3), (2, 1), (3, 3))),
)
"""Its prevotes rest on those of rounds 3 and 1."""


def test_a_certificate_of_one_round_holds() -> None:
    check_certificate(FOUR, SCOPE, certificate(FOUR, A, 2, 0, 1, 3))


def test_a_certificate_whose_prevotes_rest_on_earlier_rounds_holds() -> None:
    check_certificate(FOUR, SCOPE, RESTED)


def test_a_certificate_survives_its_encoding() -> None:
    data = encode(RESTED)
    assert decode(Certificate, data) == RESTED
    assert encode(decode(Certificate, data)) == data


@pytest.mark.parametrize("missing", range(9))
def test_every_prevote_of_the_closure_is_needed(missing: int) -> None:
    prevotes = RESTED.prevotes[:missing] + RESTED.prevotes[missing + 1 :]
    with pytest.raises(RemoteError, match="no quorum"):
        check_certificate(FOUR, SCOPE, replace(RESTED, prevotes=prevotes))


GOOD = certificate(FOUR, A, 2, 0, 1, 3)
STRANGERS = unit_members(9, 7)
STRANGER = next(n for n, row in enumerate(STRANGERS.rows) if row.key not in FOUR.weights)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (replace(GOOD, precommits=GOOD.precommits[:2]), "precommits weigh 2, the quorum is 3"),
        (replace(GOOD, precommits=GOOD.precommits[:2] * 2), "a key has two precommits"),
        (replace(GOOD, value=B), "not a precommit for its decision"),
        (replace(GOOD, round=3), "not a precommit for its decision and round"),
        (replace(GOOD, prevotes=GOOD.prevotes[:2]), "no quorum"),
        (replace(GOOD, prevotes=GOOD.prevotes + GOOD.prevotes[:1]), "two carried prevotes"),
        (replace(GOOD, prevotes=GOOD.precommits), "not a prevote for the decision"),
        (
            replace(GOOD, prevotes=(*GOOD.prevotes[:2], prevote(FOUR, 3, 2, B))),
            "not a prevote for the decision",
        ),
        (
            replace(GOOD, precommits=(*GOOD.precommits, precommit(STRANGERS, STRANGER, 2, A))),
            "not of a member",
        ),
        (
            replace(GOOD, prevotes=(*GOOD.prevotes, prevote(STRANGERS, STRANGER, 2, A))),
            "not of a member",
        ),
    ],
)
def test_i02_what_a_certificate_must_not_be(bad: Certificate, why: str) -> None:
    with pytest.raises(RemoteError, match=why):
        check_certificate(FOUR, SCOPE, bad)


def test_i03_a_certificate_is_worth_nothing_elsewhere() -> None:
    with pytest.raises(RemoteError, match="not of a member, for this height"):
        check_certificate(FOUR, scope_of(HEIGHT + 1), GOOD)
