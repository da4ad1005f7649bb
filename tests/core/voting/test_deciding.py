"""How a height ends, and whose messages it takes."""

import pytest

from p2pd.core.ids import PublicKey
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import Reason, ReasonKind
from p2pd.core.voting.events import (
    Accuse,
    CertificateSeen,
    Decided,
    Forked,
    VoteSeen,
)
from p2pd.core.voting.evidence import Evidence, check_evidence
from p2pd.core.voting.quorums import VOTE
from p2pd.core.voting.rules import SLOW
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    FOUR,
    HEIGHT,
    SCOPE,
    A,
    B,
    Bench,
    at_prevote,
    certificate,
    locked_on_a,
    objection,
    precommit,
    precommitted,
    prevote,
    prevoted,
    proposal,
    scope_of,
    sent_votes,
    unit_members,
)

THREE = unit_members(3, 2)
SLOW_PREVOTE = SLOW.reasons
CANARY = Reason(ReasonKind.CANARY, b"c" * 32, 0)


def test_a_quorum_of_precommits_decides_and_ends_the_voting() -> None:
    bench = locked_on_a()
    bench.precommits(0, A, 0)
    (decided,) = bench.precommits(0, A, 1)
    assert isinstance(decided, Decided)
    assert (decided.certificate.value, decided.certificate.round) == (A, 0)
    assert len(decided.certificate.precommits) == len(decided.certificate.prevotes) == 3
    assert bench.machine.next_deadline_s() is None
    assert bench.precommits(4, None, 0, 1, 3) == []
    assert bench.machine.certificate == decided.certificate


def test_precommits_without_the_prevotes_of_their_round_decide_nothing() -> None:
    bench = Bench(FOUR, None)
    assert bench.precommits(0, A, 0, 1, 2) == []
    assert bench.prevotes(0, A, 0, 1) == []
    (decided,) = bench.prevotes(0, A, 3)
    assert isinstance(decided, Decided)


def test_a_certificate_that_arrives_whole_decides_whatever_else_was_heard() -> None:
    bench = Bench(FOUR, 3)
    bench.close()
    whole = certificate(FOUR, A, 7, 0, 1, 2)
    assert bench.machine.handle(CertificateSeen(whole), bench.now_s) == [Decided(whole)]
    assert bench.machine.handle(CertificateSeen(whole), bench.now_s) == []


def test_a_certificate_that_does_not_hold_changes_nothing() -> None:
    bench = Bench(FOUR, 3)
    short = certificate(FOUR, A, 0, 0, 1)
    assert bench.machine.handle(CertificateSeen(short), bench.now_s) == []
    assert bench.machine.certificate is None


def test_i01_two_certificates_are_a_fork_and_name_who_signed_both() -> None:
    bench = Bench(THREE, None)
    first, second = certificate(THREE, A, 0, 0, 1), certificate(THREE, B, 0, 1, 2)
    bench.machine.handle(CertificateSeen(first), bench.now_s)
    effects = bench.machine.handle(CertificateSeen(second), bench.now_s)
    assert effects[0] == Forked(first, second)
    (accused,) = [effect for effect in effects if isinstance(effect, Accuse)]
    assert check_evidence(THREE, accused.evidence) == THREE.rows[1].peer


def test_i02_only_members_are_counted() -> None:
    bench = Bench(FOUR, None)
    crowd = unit_members(9, 7)
    strangers = [n for n, row in enumerate(crowd.rows) if row.key not in FOUR.weights]
    assert len(strangers) == 5
    bench.hear(*(prevote(crowd, who, 0, A) for who in strangers))
    assert bench.hear(*(precommit(crowd, who, 0, A) for who in strangers)) == []
    assert bench.machine.view().prevoted == 0


@pytest.mark.parametrize("other", [scope_of(HEIGHT + 1), scope_of(HEIGHT - 1)])
def test_i03_votes_for_another_place_are_not_counted(other: Scope) -> None:
    bench = Bench(FOUR, None)
    for who in range(4):
        right = prevote(FOUR, who, 0, A)
        moved = Signed(VOTE, other, right.author, right.content, right.signature)
        assert bench.machine.handle(VoteSeen(moved), 0.0) == []
    assert bench.machine.view().prevoted == 0


def test_i03_what_was_signed_as_something_else_is_no_vote() -> None:
    bench = Bench(FOUR, None)
    right = prevote(FOUR, 0, 0, A)
    other = Signed("report", SCOPE, right.author, right.content, right.signature)
    assert bench.machine.handle(VoteSeen(other), 0.0) == []
    assert bench.machine.view().prevoted == 0


def test_i03_a_vote_heard_again_changes_nothing() -> None:
    bench = at_prevote()
    again = prevote(FOUR, 0, 0, A)
    bench.hear(again)
    before = bench.machine.view()
    assert bench.hear(again, again) == []
    assert bench.machine.view() == before


def test_a_follower_says_nothing_and_learns_the_outcome() -> None:
    bench = Bench(FOUR, None)
    assert bench.close() == []
    effects = bench.hear(proposal(FOUR, 0, A_CHOICES))
    effects += bench.prevotes(13, A, 0, 1, 2)
    assert effects == []
    assert bench.machine.view().round == 13
    assert [type(effect) for effect in bench.precommits(13, A, 0, 1, 2)] == [Decided]


def test_an_observer_votes_and_is_not_counted_not_even_by_itself() -> None:
    bench = Bench(FOUR, None)
    bench.machine = bench.start(PublicKey(b"o" * 32), None)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    assert sent_votes(bench.checked(A_CHOICES)) == [prevoted(0, A)]
    assert bench.machine.view().prevoted == 0
    assert sent_votes(bench.prevotes(0, A, 0, 1)) == []
    assert sent_votes(bench.prevotes(0, A, 2)) == [precommitted(0, A)]


def test_two_different_proposals_of_one_round_accuse_their_proposer_once() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    effects = bench.hear(proposal(FOUR, 0, A_CHOICES), proposal(FOUR, 0, B_CHOICES))
    (accuse,) = [effect for effect in effects if isinstance(effect, Accuse)]
    assert check_evidence(FOUR, accuse.evidence) == FOUR.rows[0].peer
    assert bench.hear(proposal(FOUR, 0, b"third")) == []


def test_a_vote_inside_a_proposal_can_convict_its_signer() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    bench.prevotes(0, B, 0)
    quorum = tuple(prevote(FOUR, who, 0, A) for who in (0, 1, 3))
    effects = bench.hear(proposal(FOUR, 1, A_CHOICES, 0, quorum))
    assert Accuse(Evidence((prevote(FOUR, 0, 0, B), quorum[0]), ())) in effects


def test_objections_say_who_objects_to_what_in_which_round() -> None:
    bench = at_prevote()
    mine = objection(FOUR, 1, 0, CANARY)
    bench.hear(mine, prevote(FOUR, 0, 0, None))
    (said,) = bench.machine.objections()
    assert (said.peer, said.weight, said.round) == (FOUR.rows[1].peer, 1, 0)
    assert (said.reasons, said.vote) == ((CANARY,), mine)
