from p2pd.core.encoding import decode, encode
from p2pd.core.signed import Signed
from p2pd.core.votes import Vote
from p2pd.core.voting.events import Checked, Judgement, Send
from p2pd.core.voting.exchange import PROPOSALS_MAX, ROUNDS_MAX, VOTES_MAX, Inventory
from tests.core.voting.making import (
    A_CHOICES,
    FOUR,
    A,
    B,
    Bench,
    into_round,
    locked_on_a,
    precommit,
    prevote,
    proposal,
    unit_members,
)

NOTHING = Inventory((), (), ())


def fresh(who: int = 1) -> Bench:
    return Bench(FOUR, who)


def test_who_holds_nothing_is_sent_all_that_is_in_play() -> None:
    bench = locked_on_a()
    sent = bench.machine.missing(NOTHING)
    assert proposal(FOUR, 0, A_CHOICES) in sent
    assert {prevote(FOUR, who, 0, A).id for who in (0, 1, 2)} <= {each.id for each in sent}
    assert precommit(FOUR, 2, 0, A) in sent


def test_i10_what_is_not_durable_yet_is_shown_to_nobody() -> None:
    """A peer that asks while the disk is slow must not get a vote that a crash would make its signer forget."""
    bench = Bench(FOUR, 2)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    judged = Checked(A_CHOICES, A, True, Judgement.ACCEPT, ())
    sent = [one for one in bench.machine.handle(judged, bench.now_s) if isinstance(one, Send)]
    mine = prevote(FOUR, 2, 0, A)
    assert [one.message for one in sent] == [mine]
    assert bench.machine.missing(NOTHING) == [proposal(FOUR, 0, A_CHOICES)]
    bench.echo([*sent])  # it was stored, and sent to all
    assert mine in bench.machine.missing(NOTHING)


def test_who_holds_the_same_is_sent_nothing() -> None:
    bench = locked_on_a()
    assert bench.machine.missing(bench.machine.inventory()) == []


def test_only_what_is_missing_is_sent() -> None:
    full, other = locked_on_a(), fresh()
    other.hear(proposal(FOUR, 0, A_CHOICES), prevote(FOUR, 0, 0, A), prevote(FOUR, 2, 0, B))
    sent = full.machine.missing(other.machine.inventory())
    assert {each.id for each in sent} == {
        prevote(FOUR, 1, 0, A).id,
        prevote(FOUR, 2, 0, A).id,
        precommit(FOUR, 2, 0, A).id,
    }


def test_what_is_sent_brings_the_other_to_the_same_knowledge() -> None:
    full, other = locked_on_a(), fresh()
    other.hear(*full.machine.missing(other.machine.inventory()))
    assert full.machine.missing(other.machine.inventory()) == []


def test_rounds_that_a_just_names_are_in_play_and_their_quorums_are_sent() -> None:
    bench = fresh(3)
    bench.close()
    into_round(bench, 6)
    bench.prevotes(2, A, 0, 1, 2)
    assert 2 not in bench.machine.inventory().rounds
    bench.prevotes(6, A, 0, just=2)
    assert 2 in bench.machine.inventory().rounds
    sent = bench.machine.missing(NOTHING)
    assert prevote(FOUR, 1, 2, A) in sent


def test_a_locked_round_stays_in_play() -> None:
    bench = locked_on_a()
    into_round(bench, 7)
    assert bench.machine.inventory().rounds == (0, 6, 7)


def test_rounds_that_the_peer_has_in_play_are_answered_too() -> None:
    bench = fresh(3)
    bench.close()
    bench.prevotes(1, A, 0, 1, 2)
    into_round(bench, 5)
    asked = Inventory((1,), (), ())
    assert prevote(FOUR, 0, 1, A) in bench.machine.missing(asked)


def test_i09_a_liar_cannot_push_the_locked_round_out_of_play() -> None:
    bench = locked_on_a()
    into_round(bench, 200)
    lies = [prevote(FOUR, 3, 200, value, just) for value in (A, B) for just in range(1, 199)]
    bench.hear(*lies)
    inventory = bench.machine.inventory()
    assert len(inventory.rounds) == ROUNDS_MAX
    assert {0, 199, 200} <= set(inventory.rounds)


def test_i09_an_answer_is_bounded() -> None:
    many = unit_members(300, 201)
    bench = Bench(many, None)
    votes: list[Signed[Vote]] = [prevote(many, who, 0, A) for who in range(300)]
    bench.hear(*votes, *(precommit(many, who, 0, None) for who in range(300)))
    answer = bench.machine.missing(NOTHING)
    assert len(answer) == VOTES_MAX
    seen = Bench(many, None)
    seen.hear(*answer)
    rest = bench.machine.missing(seen.machine.inventory())
    assert len(rest) == 600 - VOTES_MAX
    assert PROPOSALS_MAX < VOTES_MAX


def test_an_inventory_survives_its_encoding() -> None:
    inventory = locked_on_a().machine.inventory()
    assert decode(Inventory, encode(inventory)) == inventory


def test_what_came_early_for_the_next_height_can_be_told_to_its_machine() -> None:
    bench = locked_on_a()
    box = bench.machine._box
    assert {each.id for each in box.messages()} == {
        each.id for each in bench.machine.missing(NOTHING)
    }
