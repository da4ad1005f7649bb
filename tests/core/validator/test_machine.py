from dataclasses import replace

from p2pd.core.decision import Outcome, PlanState
from p2pd.core.encoding import decode
from p2pd.core.messages import Choices
from p2pd.core.validator.events import (
    Evaluate,
    EvaluationDone,
    Event,
    Fetched,
    FetchUpdate,
    Inspect,
    Inspected,
    Job,
    Merge,
    MergeDone,
    Publish,
    Remember,
)
from p2pd.core.votes import Reason, ReasonKind, Step
from p2pd.core.work import Inspection, Verdict
from tests.core.builders import (
    GENESIS,
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    beacon,
    choices,
    release,
    update,
)
from tests.core.validator.council import FIGURES, Chair, evaluation, honest, merged_of
from tests.core.validator.stage import (
    DEADLINE_S,
    FIRST,
    a_proposal,
    a_vote,
    chair,
    council,
    proposer,
    reasons,
    updates,
)

# A height from beginning to end


def test_a_window_closes_with_its_last_update_and_promotes_the_merge() -> None:
    all_ = council()
    all_.pass_time(2.0)
    all_.see(*all_present(FIRST), *updates())
    all_.pass_time(1.0)
    assert {len(one.adopted) for one in all_.chairs} == {1}
    decision = all_.chairs[0].adopted[0]
    assert decision.header.outcome is Outcome.PROMOTED
    assert {one.adopted[0].id for one in all_.chairs} == {decision.id}
    assert len(decision.state.plan.roster) == 2


def test_each_validator_fetches_inspects_merges_and_evaluates_itself() -> None:
    all_ = council()
    all_.pass_time(2.0)
    all_.see(*updates())
    all_.pass_time(1.0)
    for one in all_.chairs:
        assert len(one.jobs(FetchUpdate)) == len(one.jobs(Inspect)) == 2
        assert len(one.jobs(Merge)) == 1
        heads = [job.head for job in one.jobs(Evaluate)]
        assert heads == [FIRST.head, one.adopted[0].head]


def test_every_vote_is_remembered_before_it_is_published() -> None:
    all_ = council()
    all_.pass_time(2.0)
    all_.see(*updates())
    all_.pass_time(1.0)
    for one in all_.chairs:
        state, spoken = b"", 0
        for effect in one.effects:
            if isinstance(effect, Remember):
                state = effect.state
            elif isinstance(effect, Publish) and effect.signed.kind in ("vote", "proposal"):
                assert effect.signed.encoded in state
                spoken += 1
        assert spoken >= 2


def test_one_silent_validator_costs_its_own_rounds_only() -> None:
    all_ = council(absent={proposer(2)})
    all_.pass_time(2.0)
    all_.see(*updates())
    all_.pass_time(5.0)
    done = [one.adopted[0] for one in all_.chairs if one.adopted]
    assert len(done) == 3
    assert done[0].header.outcome is Outcome.PROMOTED


def test_the_head_is_reported_once() -> None:
    one = chair()
    one.give(EvaluationDone(FIRST.head, evaluation(FIRST.head)))
    assert [(one.head, one.figures) for one in one.sent("report")] == [(FIRST.head, FIGURES)]


# Closing


def test_released_leases_close_a_window_and_nothing_is_promoted() -> None:
    all_ = council()
    all_.pass_time(2.0)
    all_.see(*(release(FIRST, TRAINERS[n]) for n in range(2)))
    all_.pass_time(1.0)
    assert all_.chairs[0].adopted[0].header.outcome is Outcome.EMPTY


def test_without_a_word_the_deadline_closes_a_window() -> None:
    one = chair()
    assert one.machine.next_deadline_s() == DEADLINE_S
    one.pass_time(DEADLINE_S - 0.001)
    assert one.machine.desk.closed_s is None
    one.pass_time(DEADLINE_S)
    assert one.machine.desk.closed_s == DEADLINE_S


def test_an_idle_height_has_no_timer_and_ends_a_settle_after_the_first_beacon() -> None:
    all_ = council(GENESIS)
    all_.pass_time(2.0)
    assert [one.machine.next_deadline_s() for one in all_.chairs] == [None] * 4
    all_.see(beacon(1, TRAINERS[0]))
    all_.pass_time(0.75)
    all_.see(beacon(1, TRAINERS[1]))
    assert not all_.chairs[0].adopted
    all_.pass_time(1.0)
    decision = all_.chairs[0].adopted[0]
    assert decision.header.outcome is Outcome.IDLE
    assert {lease.peer for lease in decision.state.plan.roster} == {
        one.peer for one in TRAINERS[:2]
    }


def test_others_that_vote_close_the_window_of_one_that_waits() -> None:
    one = chair(0)
    one.see(a_vote(1, Step.PREVOTE, None), a_vote(3, Step.PREVOTE, None))
    assert one.machine.desk.closed_s == 2.0


def test_a_finished_revision_waits_for_nobody() -> None:
    state = FIRST.state
    ended = replace(FIRST, state=replace(state, plan=replace(state.plan, state=PlanState.FINISHED)))
    one = chair(0, ended)
    one.see(beacon(2, TRAINERS[0]))
    assert one.machine.next_deadline_s() is None


# Building and judging


def test_what_was_held_long_before_closing_must_not_be_left_out() -> None:
    one = chair(0)
    one.see(*updates()[:1], beacon(2, TRAINERS[1]))
    one.pass_time(DEADLINE_S)
    one.see(a_proposal(choices(FIRST)))
    wanted = {ReasonKind.OMITTED, ReasonKind.ABSENT}
    assert [{reason.kind for reason in found} for found in reasons(one)] == [wanted]


def test_what_came_shortly_before_closing_may_be_left_out() -> None:
    one = chair(0)
    one.pass_time(DEADLINE_S - 1.0)
    one.see(*updates()[:1], beacon(2, TRAINERS[1]))
    one.pass_time(DEADLINE_S)
    one.see(a_proposal(choices(FIRST)))
    assert [vote.value is not None for vote in one.sent("vote")] == [True]


def test_a_trainer_with_two_updates_makes_no_proposal_look_incomplete() -> None:
    twin = update(FIRST, TRAINERS[0], steps=2)
    first = update(FIRST, TRAINERS[0])
    one = chair(0)
    one.see(first, twin)
    one.pass_time(DEADLINE_S)
    one.see(a_proposal(choices(FIRST, [twin])))
    assert [vote.value is not None for vote in one.sent("vote")] == [True]


def test_an_update_that_names_anothers_artifact_gets_its_own_verdict_however_late_it_comes() -> (
    None
):
    first = update(FIRST, TRAINERS[0])
    copy = update(FIRST, TRAINERS[1], artifact=first.content.artifact)
    one = chair(0)
    one.see(first, copy)
    assert [entry.verdict for entry in one.machine.window.entries.values()] == [0, 0]
    assert len(one.jobs(Inspect)) == 1


def test_an_artifact_that_failed_once_is_fetched_again_for_the_next_update_that_names_it() -> None:
    def cannot(job: Job) -> Event | None:
        return Fetched(job.artifact, here=False) if isinstance(job, FetchUpdate) else honest(job)

    one = chair(0)
    one.answer = cannot
    one.see(update(FIRST, TRAINERS[0]))
    one.answer = honest
    one.see(update(FIRST, TRAINERS[0], steps=2))
    assert len(one.jobs(FetchUpdate)) == 2


def test_a_third_update_of_one_trainer_is_not_looked_at() -> None:
    one = chair(0)
    one.see(*(update(FIRST, TRAINERS[0], steps=n) for n in (1, 2, 3)))
    assert len(one.machine.window.entries) == 2


def test_an_update_that_claims_more_than_its_lease_is_rejected_unseen() -> None:
    greedy = update(FIRST, TRAINERS[0], samples=10_000)
    one = chair(0)
    one.see(greedy)
    assert [entry.verdict for entry in one.machine.window.entries.values()] == [Verdict.LEASE]
    assert one.jobs(FetchUpdate) == []


def test_i05_a_proposal_with_another_verdict_than_mine_is_refused_with_the_reason() -> None:
    bad = updates()[0]

    def spoiled(job: Job) -> Event | None:
        if isinstance(job, Inspect):
            return Inspected(
                job.job.artifact, Inspection(job.job.artifact, Verdict.NONFINITE, "weight")
            )
        return honest(job)

    one = chair(0)
    one.answer = spoiled
    one.see(bad)
    one.see(a_proposal(choices(FIRST, [bad])), a_vote(1, Step.PREVOTE, None))
    wanted = Reason(ReasonKind.VERDICT, bad.id, int(Verdict.NONFINITE))
    one.pass_time(DEADLINE_S)
    assert reasons(one) == [(wanted,)]


def test_what_cannot_be_fetched_is_named_and_dropped_in_the_next_round() -> None:
    """A liar trainer serves its update to one validator, which does not pass it on."""
    good, hidden = updates()
    all_ = council()

    def cannot(job: Job) -> Event | None:
        if isinstance(job, FetchUpdate) and job.artifact == hidden.content.artifact:
            return Fetched(job.artifact, here=False)
        return honest(job)

    for n, one in enumerate(all_.chairs):
        if n != proposer(2):
            one.answer = cannot
    all_.pass_time(2.0)
    all_.see(good, hidden)
    all_.pass_time(5.0)
    decision = all_.chairs[0].adopted[0]
    cohort = decode(Choices, decision.choices).cohort
    verdicts = {candidate.update.id: candidate.verdict for candidate in cohort}
    assert decision.header.outcome is Outcome.PROMOTED
    assert verdicts == {good.id: Verdict.ACCEPTED, hidden.id: Verdict.DISPUTED}
    assert all(row.rejected == 0 for row in decision.state.standing)


def test_what_validators_judge_differently_is_disputed_and_costs_nobody_standing() -> None:
    good, odd = updates()
    all_ = council()

    def strict(job: Job) -> Event | None:
        if isinstance(job, Inspect) and job.job.artifact == odd.content.artifact:
            return Inspected(job.job.artifact, Inspection(job.job.artifact, Verdict.SIZE, "long"))
        return honest(job)

    for n in (proposer(2, 1), proposer(2, 2)):
        all_.chairs[n].answer = strict
    all_.pass_time(2.0)
    all_.see(good, odd)
    all_.pass_time(10.0)
    decision = all_.chairs[0].adopted[0]
    verdicts = [candidate.verdict for candidate in decode(Choices, decision.choices).cohort]
    assert sorted(verdicts) == [Verdict.ACCEPTED, Verdict.DISPUTED]


# The canary


def regressing(job: Job) -> Event | None:
    """Every new head is far worse than the one before."""
    if isinstance(job, Evaluate) and job.head != FIRST.head:
        return EvaluationDone(job.head, evaluation(job.head, 9_000_000))
    return honest(job)


def test_a_head_that_regresses_for_enough_validators_is_blocked() -> None:
    all_ = council()
    for one in all_.chairs:
        one.answer = regressing
    all_.pass_time(2.0)
    all_.see(*updates())
    all_.pass_time(10.0)
    decision = all_.chairs[0].adopted[0]
    assert decision.header.outcome is Outcome.BLOCKED
    assert decision.head == FIRST.head
    assert len(decode(Choices, decision.choices).grounds) >= 2


def test_one_validators_canary_does_not_hold_up_the_others() -> None:
    all_ = council()
    all_.chairs[proposer(2, 1)].answer = regressing
    all_.pass_time(2.0)
    all_.see(*updates())
    all_.pass_time(5.0)
    assert all_.chairs[0].adopted[0].header.outcome is Outcome.PROMOTED


def without_worker(job: Job) -> Event | None:
    return EvaluationDone(job.head, None) if isinstance(job, Evaluate) else honest(job)


def test_a_head_that_cannot_be_evaluated_here_is_refused_and_tried_again_as_the_base() -> None:
    all_ = council()
    lame = all_.chairs[proposer(2, 1)]
    lame.answer = without_worker
    all_.pass_time(2.0)
    all_.see(*all_present(FIRST), *updates())
    all_.pass_time(5.0)
    head = lame.adopted[0].head
    assert lame.adopted[0].header.outcome is Outcome.PROMOTED
    assert [found[0].kind for found in reasons(lame)] == [ReasonKind.CANARY]
    assert [job.head for job in lame.jobs(Evaluate)].count(head) == 2


def test_without_the_bases_losses_a_head_is_judged_neither_good_nor_bad() -> None:
    def blind(job: Job) -> Event | None:
        lost = isinstance(job, Evaluate) and job.head == FIRST.head
        return without_worker(job) if lost else honest(job)

    one = Chair(VALIDATORS[0], SETTING, FIRST, answer=blind)
    one.start()
    one.pass_time(2.0)
    one.see(*updates())
    _, verdict = one.machine.desk.canary(merged_of(one.jobs(Merge)[0]).head)
    assert verdict == 0


# Failing helpers


def test_a_failing_merge_is_not_tried_again_until_it_is_proposed_again() -> None:
    def broken(job: Job) -> Event | None:
        return MergeDone(job.inputs, None) if isinstance(job, Merge) else honest(job)

    one = chair(0)
    one.answer = broken
    both = updates()
    one.see(*both)
    assert len(one.jobs(Merge)) == 1
    one.see(a_proposal(choices(FIRST, both)))
    assert len(one.jobs(Merge)) == 2
    assert [vote.value for vote in one.sent("vote")] == [None]


def test_an_update_that_could_not_be_inspected_is_asked_for_again_when_it_is_proposed() -> None:
    def broken(job: Job) -> Event | None:
        return Inspected(job.job.artifact, None) if isinstance(job, Inspect) else honest(job)

    one = chair(0)
    one.answer = broken
    both = updates()
    one.see(*both)
    assert len(one.jobs(Inspect)) == 2
    one.answer = honest
    one.see(a_proposal(choices(FIRST, both)))
    assert len(one.jobs(Inspect)) == 4
    assert [vote.value is not None for vote in one.sent("vote")] == [True]
