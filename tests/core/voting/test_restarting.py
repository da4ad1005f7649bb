"""What a validator remembers over a crash."""

from p2pd.core.votes import Reason, ReasonKind
from p2pd.core.voting.events import (
    ForeignVote,
    PeerHeard,
    Persist,
    ProposalSeen,
    Resumed,
    Send,
)
from p2pd.core.voting.exchange import Inventory
from p2pd.core.voting.rules import SLOW
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    FOUR,
    UNDECIDED,
    A,
    Bench,
    E,
    at_prevote,
    into_round,
    locked_on_a,
    precommit,
    prevote,
    prevoted,
    proposal,
    sent_proposals,
    sent_votes,
    unit_members,
)

THREE = unit_members(3, 2)
SLOW_PREVOTE = SLOW.reasons
CANARY = Reason(ReasonKind.CANARY, b"c" * 32, 0)


def last_state(bench_effects: list[object]) -> bytes:
    return [effect.state for effect in bench_effects if isinstance(effect, Persist)][-1]


def restarted(bench: Bench, stored: bytes) -> Bench:
    return Bench(bench.members, bench.who, now_s=bench.now_s + 5, stored=stored)


def test_i10_after_a_crash_between_storing_and_sending_the_stored_vote_is_sent() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    stored = last_state(list(bench.checked(A_CHOICES)))
    again = restarted(bench, stored)
    again.resume()
    # Meanwhile another proposal is preferred: it makes no difference to what was signed.
    again.hear(proposal(FOUR, 0, B_CHOICES))
    again.checked(B_CHOICES)
    assert again.wait(0.99) == []
    (sent,) = again.wait(0.02)
    assert isinstance(sent, Send)
    assert sent.message.content == prevoted(0, A)


def test_i10_a_restarted_validator_keeps_its_lock_and_what_it_can_propose() -> None:
    bench = at_prevote(1)
    stored = last_state(list(bench.prevotes(0, A, 0, 2)))
    again = restarted(bench, stored)
    again.resume()
    again.wait(1.0)
    assert again.machine.view().locked == (A, 0)
    (offer,) = sent_proposals(again.precommits(1, None, 0, 2))
    assert (offer.round, offer.pol, offer.choices) == (1, 0, A_CHOICES)
    assert len(offer.quorum) == FOUR.quorum


def test_i10_a_restarted_validator_can_show_others_the_quorum_behind_its_lock() -> None:
    bench = at_prevote(1)
    stored = last_state(list(bench.prevotes(0, A, 0, 2)))
    again = restarted(bench, stored)
    shown = {message.id for message in again.machine.missing(Inventory((), (), ()))}
    assert shown == {prevote(FOUR, who, 0, A).id for who in (0, 1, 2)} | {
        precommit(FOUR, 1, 0, A).id
    }


def test_i10_a_restart_in_a_late_round_forgets_nothing_of_it() -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    into_round(bench, 12)
    bench.hear(proposal(FOUR, 12, UNDECIDED))
    bench.checked(UNDECIDED)
    stored = last_state(list(bench.prevotes(12, E, 0, 2)))
    again = restarted(bench, stored)
    again.resume()
    again.wait(1.0)
    assert again.machine.view().locked == (E, 12)
    assert again.machine.view().prevoted == FOUR.quorum
    again.prevotes(14, None, 0)
    again.prevotes(15, None, 0)
    assert again.machine.view().prevoted == FOUR.quorum


def test_i10_a_stored_proposal_is_sent_again_and_no_second_one_is_made() -> None:
    bench = Bench(FOUR, 0)
    bench.close()
    stored = last_state(list(bench.built(0, A_CHOICES)))
    again = restarted(bench, stored)
    again.resume()
    effects = again.wait(1.0)
    assert [content.choices for content in sent_proposals(effects)] == [A_CHOICES]
    assert again.built(0, B_CHOICES) == []
    assert sent_votes(again.checked(A_CHOICES)) == [prevoted(0, A)]


def test_nothing_is_voted_before_others_had_time_to_be_heard() -> None:
    bench = Bench(FOUR, 2)
    bench.resume()
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    bench.checked(A_CHOICES)
    assert sent_votes(bench.wait(0.99)) == []
    assert sent_votes(bench.wait(0.01)) == [prevoted(0, A)]


def test_listening_lasts_until_a_quorum_is_there_and_had_time_to_speak() -> None:
    bench = Bench(FOUR, 2)
    bench.machine.handle(Resumed(), bench.now_s)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    bench.checked(A_CHOICES)
    bench.machine.handle(PeerHeard(FOUR.rows[0].peer), bench.now_s)
    assert bench.wait(100.0) == []
    bench.machine.handle(PeerHeard(FOUR.rows[3].peer), bench.now_s)
    assert sent_votes(bench.wait(0.99)) == []
    assert sent_votes(bench.wait(0.01)) == [prevoted(0, A)]


def test_one_that_decides_alone_listens_for_nobody_in_particular() -> None:
    bench = Bench(unit_members(1, 1), 0)
    bench.machine.handle(Resumed(), bench.now_s)
    bench.close()
    assert bench.wait(0.99) == []
    assert not bench.machine.view().listening or bench.wait(0.02)


def test_i10_a_vote_of_my_key_in_the_middle_of_voting_is_another_nodes() -> None:
    bench = Bench(FOUR, 2)
    bench.resume()
    bench.wait(1.0)
    mine = prevote(FOUR, 2, 0, A)
    persist, foreign = bench.hear(mine)
    assert isinstance(persist, Persist)
    assert foreign == ForeignVote(mine)


def test_i10_a_vote_of_my_key_that_i_do_not_remember_silences_me_for_the_height() -> None:
    bench = Bench(FOUR, 2)
    bench.resume()
    (persist,) = bench.hear(prevote(FOUR, 2, 0, A))
    bench.close()
    bench.hear(proposal(FOUR, 0, B_CHOICES))
    bench.checked(B_CHOICES)
    assert bench.wait(100.0) == []
    assert isinstance(persist, Persist)
    again = restarted(bench, persist.state)
    again.resume()
    again.close()
    assert again.wait(100.0) == []


def test_i10_my_forgotten_vote_is_recognised_inside_a_proposal_too() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    into_round(bench, 1)
    quorum = tuple(prevote(FOUR, who, 0, A) for who in (0, 1, 2))
    effects = bench.hear(proposal(FOUR, 1, A_CHOICES, 0, quorum))
    assert ForeignVote(quorum[2]) in effects


def test_my_own_votes_coming_back_are_no_surprise() -> None:
    bench = locked_on_a()
    assert bench.hear(prevote(FOUR, 2, 0, A), precommit(FOUR, 2, 0, A)) == []


def test_a_late_event_for_a_finished_round_makes_no_second_vote() -> None:
    bench = at_prevote()
    into_round(bench, 1)
    assert sent_votes(bench.checked(A_CHOICES)) == []
    assert bench.machine.handle(ProposalSeen(proposal(FOUR, 0, A_CHOICES)), bench.now_s) == []
