from dataclasses import replace

import pytest

from p2pd.core.decision import Decision, Outcome
from p2pd.core.encoding import decode
from p2pd.core.ids import ArtifactId, DecisionId, digest
from p2pd.core.messages import ChoiceKind, Choices, Release
from p2pd.core.signed import Signed
from p2pd.core.validator.body import dump_body
from p2pd.core.validator.events import (
    Adopt,
    Adopted,
    ChoicesFetched,
    Event,
    FetchChoices,
    Fetched,
    FetchUpdate,
    Halt,
    Job,
    Merge,
    MergeDone,
    Publish,
)
from p2pd.core.votes import Step, Vote
from p2pd.core.voting.events import Defence
from p2pd.core.voting.evidence import Evidence
from p2pd.wire.envelope import seal
from tests.core.builders import (
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    release,
    two_faces,
)
from tests.core.validator.council import Chair, busy, honest, merged_of
from tests.core.validator.stage import (
    DEADLINE_S,
    FIRST,
    a_proposal,
    a_vote,
    chair,
    council,
    proposer,
    updates,
)

# Values that others derived


def decide(one: Chair, decision: Decision) -> None:
    """The three others decide."""
    others = [n for n in range(4) if VALIDATORS[n] is not one.signer]
    for step in (Step.PREVOTE, Step.PRECOMMIT):
        one.see(*(a_vote(n, step, decision.id) for n in others))


def test_a_value_that_others_decided_is_fetched_checked_and_adopted() -> None:
    decision = follow(FIRST, choices(FIRST, updates()))
    one = chair(0)
    decide(one, decision)
    assert {job.value for job in one.jobs(FetchChoices)} == {decision.id}
    one.give(ChoicesFetched(decision.id, decision.choices))
    assert [each.id for each in one.adopted] == [decision.id]


def other_bits(job: Job) -> Event | None:
    if isinstance(job, Merge):
        return MergeDone(job.inputs, replace(merged_of(job), head=ArtifactId(bytes(32))))
    return honest(job)


def test_i06_a_validator_whose_merge_has_other_bits_halts_and_says_both_ids() -> None:
    decision = follow(FIRST, choices(FIRST, updates()))
    one = chair(0)
    one.answer = other_bits
    decide(one, decision)
    one.give(ChoicesFetched(decision.id, decision.choices))
    assert len(one.halts) == 1
    assert one.halts[0].startswith("merge mismatch at 2: mine ")
    assert one.halts[0].endswith(f"certified {decision.id.hex()[:10]}")
    assert one.jobs(Adopt) == []


def test_i06_so_does_one_that_learns_of_the_decision_by_catching_up() -> None:
    decision = follow(FIRST, choices(FIRST, updates()))
    one = chair(0)
    one.answer = other_bits
    one.see(a_proposal(decode(Choices, decision.choices)))
    one.see(*(a_vote(n, Step.PREVOTE, None) for n in (1, 3)))
    one.give(Adopted(decision))
    assert len(one.halts) == 1


def test_other_choices_than_those_voted_on_do_not_look_like_a_mismatch() -> None:
    wanted = follow(FIRST, choices(FIRST, updates()))
    other = follow(FIRST, choices(FIRST, updates()[:1]))
    one = chair(0)
    one.see(*(a_vote(n, Step.PREVOTE, wanted.id) for n in (1, 2, 3)))
    one.see(a_proposal(decode(Choices, other.choices)))
    assert one.halts == []


def test_a_quorum_of_prevotes_for_other_bits_is_refused_but_halts_nobody() -> None:
    decision = follow(FIRST, choices(FIRST, updates()))
    one = chair(0)
    one.answer = other_bits
    one.see(*(a_vote(n, Step.PREVOTE, decision.id) for n in (1, 2, 3)))
    one.give(ChoicesFetched(decision.id, decision.choices))
    assert one.halts == []
    assert decision.id not in [vote.value for vote in one.sent("vote")]


def test_choices_are_served_with_the_header_that_binds_them() -> None:
    all_ = council()
    all_.pass_time(2.0)
    all_.see(*updates())
    one = chair(0)
    one.see(*updates(), a_proposal(choices(FIRST, updates())))
    (value,) = [vote.value for vote in one.sent("vote")]
    decision = follow(FIRST, choices(FIRST, updates()))
    assert value == decision.id
    assert one.machine.choices_of(value) == dump_body(decision)
    assert one.machine.choices_of(DecisionId(digest("decision", b"?"))) is None


# Restarts


def test_i10_a_restarted_validator_says_what_it_said() -> None:
    one = chair(0)
    one.see(*updates(), a_proposal(choices(FIRST, updates())))
    (said,) = one.sent("vote")
    one.effects.clear()
    one.start()
    assert one.sent("vote") == []
    one.pass_time(one.now_s + 1.0)
    assert one.sent("vote") == [said]
    # Another proposal of that round changes nothing any more.
    one.see(a_proposal(choices(FIRST)))
    assert one.sent("vote") == [said]


def test_i10_a_restarted_validator_holds_and_serves_again_what_it_is_locked_on() -> None:
    one = chair(0)
    one.see(*updates(), a_proposal(choices(FIRST, updates())))
    value = follow(FIRST, choices(FIRST, updates())).id
    one.see(*(a_vote(who, Step.PREVOTE, value) for who in (1, 2)))
    assert Step.PRECOMMIT in [vote.step for vote in one.sent("vote")]
    one.effects.clear()
    one.start()
    wanted = {job.artifact for job in one.jobs(FetchUpdate)}
    assert wanted == {update.content.artifact for update in updates()}
    assert one.machine.choices_of(value) == dump_body(follow(FIRST, choices(FIRST, updates())))


def test_i10_a_proposer_that_dies_before_its_own_check_sends_the_stored_proposal() -> None:
    one = chair(proposer(2))
    one.answer = busy
    for n in range(2):
        one.see(release(FIRST, TRAINERS[n]))
    (said,) = one.sent("proposal")
    one.effects.clear()
    one.start()
    one.pass_time(one.now_s + 2.0)
    assert one.sent("proposal") == [said]


def test_i10_a_decided_height_is_not_voted_in_again() -> None:
    all_ = council()
    all_.pass_time(2.0)
    all_.see(*updates())
    all_.pass_time(1.0)
    one = all_.chairs[0]
    assert one.adopted
    one.effects.clear()
    one.start()
    one.pass_time(one.now_s + 5.0)
    assert one.sent("vote") == []


def test_a_vote_of_ones_own_key_from_elsewhere_halts_with_one_clear_line() -> None:
    one = chair(0)
    one.pass_time(2.0)
    one.see(a_vote(0, Step.PREVOTE, None, round_=3))
    assert one.halts == [
        "another node votes with this key at height 2: a copied identity; stop one of them"
    ]
    one.see(*updates())
    assert one.sent("vote") == []


# Evidence and suspension


def liar_votes(who: int) -> tuple[Signed[Vote], ...]:
    return two_faces(2, VALIDATORS[who]).votes


def test_i01_a_double_vote_suspends_its_signer_with_the_decision() -> None:
    all_ = council()
    all_.pass_time(2.0)
    all_.see(*liar_votes(proposer(2, 1)), *updates())
    all_.pass_time(2.0)
    decision = all_.chairs[0].adopted[0]
    assert decision.state.suspended == (VALIDATORS[proposer(2, 1)].peer,)
    assert decision.header.next_members != decision.header.members


def test_evidence_that_came_too_late_goes_into_the_next_decision() -> None:
    one = chair(0)
    one.see(*liar_votes(1))
    decision = follow(FIRST, choices(FIRST, updates(), all_present(FIRST)))
    one.give(Adopted(decision))
    held: tuple[Evidence, ...] = one.machine.window.evidence_held()
    assert [item.votes[0].signer for item in held] == [VALIDATORS[1].peer]
    suspending = follow(decision, choices(decision, updates(decision), evidence=held))
    assert suspending.state.suspended == (VALIDATORS[1].peer,)
    one.give(Adopted(suspending))
    assert one.machine.window.evidence_held() == ()


def test_evidence_is_told_to_the_others_at_each_height_until_it_is_included() -> None:
    one = chair(0)
    one.see(*liar_votes(1))
    (found,) = one.sent("evidence")
    decision = follow(FIRST, choices(FIRST, updates(), all_present(FIRST)))
    one.give(Adopted(decision))
    assert one.sent("evidence") == [found, found]
    suspending = follow(decision, choices(decision, updates(decision), evidence=(found,)))
    one.give(Adopted(suspending))
    assert one.sent("evidence") == [found, found]


def test_evidence_that_others_found_or_oneself_before_a_crash_is_held() -> None:
    for finder in (VALIDATORS[2], VALIDATORS[0]):
        one = chair(0)
        told = seal(finder, "evidence", SETTING.scope(2), two_faces(2, VALIDATORS[1]))
        one.see(told)
        assert one.machine.window.evidence_held() == (told.content,)
        assert one.sent("evidence") == []


def test_i01_without_its_defence_evidence_is_ignored() -> None:
    lax = replace(SETTING, defences_off=frozenset({Defence.EVIDENCE}))
    for setting, found in ((SETTING, 1), (lax, 0)):
        one = Chair(VALIDATORS[0], setting, FIRST)
        one.start()
        one.see(*liar_votes(1))
        assert len(one.machine.window.evidence_held()) == found


def test_a_suspended_validator_follows_and_says_nothing() -> None:
    held = (two_faces(2, VALIDATORS[0]),)
    decision = follow(FIRST, choices(FIRST, updates(), all_present(FIRST), evidence=held))
    one = chair(0, decision)
    one.see(*updates(decision))
    one.pass_time(DEADLINE_S + 60.0)
    assert one.sent("vote") == one.sent("proposal") == one.sent("report") == []


def test_a_node_without_a_seat_follows_and_says_nothing() -> None:
    one = Chair(TRAINERS[5], SETTING, FIRST)
    one.start()
    one.see(*updates())
    one.pass_time(DEADLINE_S + 60.0)
    assert one.sent("vote") == one.sent("proposal") == []


# Catching up


def test_adopting_by_catching_up_abandons_the_height_that_was_voted_in() -> None:
    one = chair(0)
    one.see(*updates(), a_proposal(choices(FIRST, updates())))
    assert one.sent("vote")
    decision = follow(FIRST, choices(FIRST, updates(), all_present(FIRST)))
    one.give(Adopted(decision))
    assert one.machine.window.height == 3
    # Late answers of the height before disturb nothing.
    one.give(Fetched(updates()[0].content.artifact, here=True))
    one.give(MergeDone(b"old", None))
    one.give(ChoicesFetched(decision.id, None))
    assert one.machine.halted == ""


def never_merges(job: Job) -> Event | None:
    return None if isinstance(job, Merge) else honest(job)


def test_undecided_ends_a_height_that_nobody_can_check() -> None:
    all_ = council()
    for one in all_.chairs:
        one.answer = never_merges
    all_.pass_time(2.0)
    all_.see(*updates())
    all_.pass_time(600.0, step_s=1.0)
    first = all_.chairs[0].adopted[0]
    assert first.header.outcome is Outcome.UNDECIDED
    assert decode(Choices, first.choices).kind is ChoiceKind.UNDECIDED


@pytest.mark.parametrize("kind", [Release])
def test_a_second_release_of_one_trainer_changes_nothing(kind: type) -> None:
    one = chair(0)
    first = release(FIRST, TRAINERS[0])
    other = seal(TRAINERS[0], "release", first.scope, kind(FIRST.id, "again"))
    one.see(first, other)
    assert one.machine.window.releases == {TRAINERS[0].peer: first}


def test_halting_is_the_last_effect_that_matters() -> None:
    one = chair(0)
    one.see(a_vote(0, Step.PREVOTE, None, round_=3))
    place = next(n for n, effect in enumerate(one.effects) if isinstance(effect, Halt))
    assert not any(isinstance(effect, Publish) for effect in one.effects[place:])


# Coming back with an old data directory


def test_i10_until_it_has_listened_once_a_validator_listens_at_each_height_it_learns_of() -> None:
    second = follow(FIRST, choices(FIRST, updates(), all_present(FIRST)))
    third = follow(second, choices(second, updates(second)))
    one = Chair(VALIDATORS[0], SETTING, FIRST)
    one.start()
    for decision in (second, third):
        one.give(Adopted(decision))
        assert one.machine.votes.listening
    one.meet()
    one.pass_time(2.0)
    assert not one.machine.votes.listening
    one.give(Adopted(follow(third, choices(third))))
    assert not one.machine.votes.listening
