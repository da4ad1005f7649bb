"""Whether a head reaches the target: each validator judges by its own evaluation, within a band."""

from dataclasses import replace

import pytest

from p2pd.core.decision import Decision, Outcome, PlanState
from p2pd.core.derive import Setting, genesis_decision
from p2pd.core.encoding import encode
from p2pd.core.messages import ChoiceKind, Choices
from p2pd.core.validator.events import Evaluate, EvaluationDone, Event, Job
from p2pd.core.votes import NO_ROUND, Reason, ReasonKind
from p2pd.core.voting.proposals import Proposal
from p2pd.wire.envelope import seal
from tests.core.builders import TRAINERS, VALIDATORS, beacon, choices, running, setting_of, update
from tests.core.validator.council import Answer, Chair, Council, evaluation, honest
from tests.core.validator.stage import DEADLINE_S, proposer

TARGET, BAND = 700_000, 2_000
SETTING = setting_of(target=TARGET, target_band=BAND)
FIRST = running(2, 0, SETTING)
HEIGHT = FIRST.height + 1


def measuring(metric: int) -> Answer:
    """Every head is worth this much."""

    def answer(job: Job) -> Event | None:
        if isinstance(job, Evaluate):
            return EvaluationDone(job.head, replace(evaluation(job.head), metric=metric))
        return honest(job)

    return answer


def council(*metrics: int, setting: Setting = SETTING) -> Council:
    """Four validators, and what each measures."""
    made = Council(running(2, 0, setting), setting=setting)
    for chair, metric in zip(made.chairs, metrics, strict=True):
        chair.answer = measuring(metric)
    made.start()
    return made


def chair(metric: int, who: int = 0) -> Chair:
    made = Chair(VALIDATORS[who], SETTING, FIRST, answer=measuring(metric))
    made.start()
    return made


def proposal(chosen: Choices, round_: int = 0) -> object:
    content = Proposal(round_, NO_ROUND, encode(chosen), ())
    return seal(VALIDATORS[proposer(HEIGHT, round_)], "proposal", SETTING.scope(HEIGHT), content)


REACHED = choices(FIRST, kind=ChoiceKind.REACHED)


def outcome(all_: Council) -> tuple[Outcome, PlanState]:
    (decision,) = {each.decision.id: each.decision for each in all_.chairs}.values()
    assert isinstance(decision, Decision)
    return decision.header.outcome, decision.state.plan.state


def test_a_head_that_reaches_the_target_ends_the_run_at_once() -> None:
    all_ = council(*[TARGET + BAND] * 4)
    all_.pass_time(3.0)
    assert outcome(all_) == (Outcome.FINISHED, PlanState.FINISHED)
    assert all_.chairs[0].decision.head == FIRST.head
    assert all_.chairs[0].decision.height == HEIGHT


def test_a_metric_that_is_to_be_low_is_reached_from_above() -> None:
    workload = replace(SETTING.revision.workload, higher_is_better=False)
    setting = replace(SETTING, revision=replace(SETTING.revision, workload=workload))
    all_ = council(*[TARGET - BAND] * 4, setting=setting)
    all_.pass_time(3.0)
    assert outcome(all_) == (Outcome.FINISHED, PlanState.FINISHED)
    below = council(*[TARGET + BAND] * 4, setting=setting)
    below.pass_time(3.0)
    assert not below.chairs[0].adopted


def test_a_head_that_does_not_reach_it_is_trained_on() -> None:
    all_ = council(*[TARGET - BAND] * 4)
    all_.pass_time(3.0)
    assert not all_.chairs[0].adopted
    all_.see(*(update(FIRST, TRAINERS[n], SETTING) for n in range(2)))
    all_.pass_time(3.0)
    assert outcome(all_)[0] is Outcome.PROMOTED


@pytest.mark.parametrize("metrics", [(0, 0, 1, 1), (-1, 0, 1, 2), (1, -1, -1, -1), (-1, 1, 1, 1)])
def test_validators_whose_measurements_lie_within_the_band_agree(metrics: tuple[int, ...]) -> None:
    """Some find it reached, others just not: they go along with whoever proposes."""
    all_ = council(*(TARGET + metric * (BAND - 1) // 2 for metric in metrics))
    all_.see(beacon(HEIGHT, TRAINERS[0], setting=SETTING))
    all_.pass_time(2 * DEADLINE_S)
    adopted = [each.adopted[0] for each in all_.chairs if each.adopted]
    assert len(adopted) >= 3, "who is late learns it from the others"
    assert len({decision.id for decision in adopted}) == 1
    assert adopted[0].header.outcome in (Outcome.FINISHED, Outcome.EMPTY)


def test_a_false_claim_is_refused_by_name_of_the_head() -> None:
    one = chair(TARGET - BAND)
    one.pass_time(DEADLINE_S)
    one.see(proposal(REACHED))  # type: ignore[arg-type]
    vote = one.sent("vote")[-1]
    assert vote.value is None
    assert vote.reasons == (Reason(ReasonKind.TARGET, FIRST.head, 0),)


def test_a_claim_in_the_band_is_gone_along_with_and_so_is_none() -> None:
    for chosen in (REACHED, choices(FIRST)):
        for metric in (TARGET - BAND + 1, TARGET + BAND - 1):
            one = chair(metric)
            one.pass_time(DEADLINE_S if metric < TARGET else 1.5)
            one.see(proposal(chosen))  # type: ignore[arg-type]
            assert one.sent("vote")[-1].value is not None


def test_without_judging_it_a_false_claim_would_end_the_run() -> None:
    """A band beyond all metrics: everybody goes along with everything."""
    blind = setting_of(target=TARGET, target_band=10**9)
    one = Chair(VALIDATORS[0], blind, running(2, 0, blind), answer=measuring(0))
    one.start()
    one.pass_time(DEADLINE_S)
    content = Proposal(0, NO_ROUND, encode(REACHED), ())
    one.see(seal(VALIDATORS[proposer(HEIGHT)], "proposal", blind.scope(HEIGHT), content))
    assert one.sent("vote")[-1].value is not None


def test_who_withholds_that_the_target_is_reached_is_refused() -> None:
    one = chair(TARGET + BAND)
    one.pass_time(1.5)
    one.see(proposal(choices(FIRST)))  # type: ignore[arg-type]
    vote = one.sent("vote")[-1]
    assert (vote.value, vote.reasons) == (None, (Reason(ReasonKind.TARGET, FIRST.head, 0),))


def test_three_honest_validators_end_a_run_that_one_liar_goes_on_with() -> None:
    all_ = council(TARGET + BAND, TARGET + BAND, TARGET + BAND, 0)
    all_.pass_time(120.0)
    assert outcome(all_) == (Outcome.FINISHED, PlanState.FINISHED)


def test_three_honest_validators_train_on_whatever_one_liar_claims() -> None:
    all_ = council(0, 0, 0, TARGET + BAND)
    all_.see(*(update(FIRST, TRAINERS[n], SETTING) for n in range(2)))
    all_.pass_time(120.0)
    assert all_.chairs[0].adopted[0].header.outcome is Outcome.PROMOTED


def test_who_cannot_evaluate_the_head_goes_along() -> None:
    def failing(job: Job) -> Event | None:
        return EvaluationDone(job.head, None) if isinstance(job, Evaluate) else honest(job)

    one = Chair(VALIDATORS[0], SETTING, FIRST, answer=failing)
    one.start()
    one.pass_time(DEADLINE_S)
    one.see(proposal(REACHED))  # type: ignore[arg-type]
    assert one.sent("vote")[-1].value is not None


def test_an_idle_height_whose_head_reaches_the_target_wakes_first_and_then_the_run_ends() -> None:
    """No idle height may end a run: whoever proposed that there was refused by everybody, for ever."""
    idle = genesis_decision(SETTING)
    all_ = Council(idle, setting=SETTING)
    for each in all_.chairs:
        each.answer = measuring(TARGET + BAND)
    all_.start()
    for each in all_.chairs:
        found = replace(evaluation(idle.head), metric=TARGET + BAND)
        each.give(EvaluationDone(idle.head, found))
    all_.see(beacon(idle.height + 1, TRAINERS[0], setting=SETTING))
    all_.pass_time(DEADLINE_S)
    outcomes = [decision.header.outcome for decision in all_.chairs[0].adopted]
    assert outcomes == [Outcome.IDLE, Outcome.FINISHED]


def test_without_a_target_nothing_is_reached() -> None:
    plain = setting_of()
    all_ = council(*[10**6] * 4, setting=plain)
    all_.pass_time(3.0)
    assert not all_.chairs[0].adopted
    assert all_.chairs[0].machine.desk.above_target() is None
