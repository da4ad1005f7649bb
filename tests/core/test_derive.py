from dataclasses import replace
from typing import Any

import pytest

from p2pd.core.decision import Decision, Outcome, PlanState, State, artifacts_of
from p2pd.core.derive import UNDECIDED, derive, genesis_decision, members_hash, merge_job, weight_of
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId, PeerId, UpdateId
from p2pd.core.messages import Candidate, ChoiceKind, Choices, Service
from p2pd.core.standing import newcomer
from p2pd.core.work import FULL, Measured, Merged, OuterRule, Verdict
from tests.core.builders import (
    GENESIS,
    HEAD,
    REDUCERS,
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    beacon,
    choices,
    follow,
    genesis,
    merge,
    reduction,
    right_inputs,
    running,
    setting_of,
    two_faces,
    update,
)

DEALT = running(trainers=3, reducers=2)
UPDATES = [update(DEALT, one, steps=n) for n, one in enumerate(TRAINERS[:3], start=1)]
CHOSEN = choices(DEALT, UPDATES, all_present(DEALT, 3, 2))
NEXT = follow(DEALT, CHOSEN)


def rejected(who: int, verdict: Verdict) -> Candidate:
    return Candidate(UPDATES[who], verdict, FULL)


def row_of(state: State, peer: PeerId) -> Any:
    return next((row for row in state.standing if row.peer == peer), None)


def test_i02_the_first_decision_follows_from_what_the_authority_signed() -> None:
    again = genesis_decision(setting_of())
    assert again.id == GENESIS.id
    assert (again.height, again.head, again.header.previous) == (0, HEAD, None)
    assert again.state.plan.state is PlanState.IDLE
    assert genesis_decision(setting_of(genesis(name="other"))).id != GENESIS.id
    assert genesis_decision(setting_of(max_roster=3)).id != GENESIS.id


def test_i06_the_same_choices_give_the_same_decision() -> None:
    fresh = derive(
        setting_of(),
        decode(Decision, encode(DEALT)),
        decode(Choices, encode(CHOSEN)),
        encode(CHOSEN),
        merge(SETTING, DEALT, CHOSEN),
    )
    assert encode(fresh) == encode(NEXT)
    assert fresh.id == NEXT.id


def test_i04_the_id_binds_the_merged_tensors() -> None:
    merged = NEXT.merged
    assert merged is not None
    others = [
        replace(merged, head=ArtifactId(bytes(32))),
        replace(merged, outer=ArtifactId(bytes(32))),
        replace(merged, clips=(1, 2, 3)),
        replace(merged, measured=Measured((0, 1, 2), (9,))),
        replace(merged, measured=None),
        replace(merged, rule="trimmed_mean"),
    ]
    ids = {derive(SETTING, DEALT, CHOSEN, encode(CHOSEN), other).id for other in others}
    assert len(ids | {NEXT.id}) == len(others) + 1


def test_a_window_with_accepted_updates_promotes_their_merge() -> None:
    assert NEXT.header.outcome is Outcome.PROMOTED
    assert NEXT.merged is not None
    assert NEXT.head == NEXT.merged.head == NEXT.state.plan.base
    before, after = DEALT.state.progress, NEXT.state.progress
    assert after.heads == before.heads + 1
    assert after.samples == before.samples + 60
    assert after.steps == before.steps + 2  # the median of 1, 2, 3
    assert NEXT.merged.measured is not None
    assert NEXT.state.exponents == NEXT.merged.measured.exponents
    assert NEXT.header.previous == DEALT.id


def test_i07_claimed_samples_never_exceed_the_lease() -> None:
    greedy = update(DEALT, TRAINERS[0], samples=10_000)
    assert weight_of(Candidate(greedy, Verdict.ACCEPTED, FULL), 20) == 20 * FULL * FULL
    after = follow(DEALT, choices(DEALT, [greedy], all_present(DEALT)))
    assert after.state.progress.samples == 20
    # Without the cap one trainer would outweigh everybody.
    assert greedy.content.samples * FULL * FULL > 100 * weight_of(CHOSEN.cohort[0], 20)


def test_only_accepted_updates_are_merged_in_the_order_of_their_ids() -> None:
    mixed = choices(DEALT, [UPDATES[0], rejected(1, Verdict.SIZE), UPDATES[2]])
    job = merge_job(SETTING, DEALT, mixed.cohort)
    assert job is not None
    assert [one.update for one in job.inputs] == sorted(
        UpdateId(one.id) for one in (UPDATES[0], UPDATES[2])
    )
    assert (job.base, job.exponents) == (HEAD, None)
    assert merge_job(SETTING, DEALT, choices(DEALT, [rejected(1, Verdict.SIZE)]).cohort) is None


@pytest.mark.parametrize(
    ("chosen", "outcome"),
    [
        (choices(DEALT), Outcome.EMPTY),
        (choices(DEALT, [rejected(0, Verdict.SIZE)]), Outcome.EMPTY),
        (choices(DEALT, UPDATES, kind=ChoiceKind.BLOCKED), Outcome.BLOCKED),
        (choices(DEALT, kind=ChoiceKind.BLOCKED), Outcome.EMPTY),
        (UNDECIDED, Outcome.UNDECIDED),
        (CHOSEN, Outcome.PROMOTED),
    ],
    ids=["no updates", "all rejected", "blocked", "nothing to block", "undecided", "promoted"],
)
def test_every_window_ends_in_one_outcome(chosen: Choices, outcome: Outcome) -> None:
    decision = follow(DEALT, chosen)
    assert decision.header.outcome is outcome
    promoted = outcome is Outcome.PROMOTED
    assert (decision.head != DEALT.head) is promoted
    assert (decision.state.progress.heads > 0) is promoted
    assert decision.state.plan.base == decision.head
    assert decision.height == DEALT.height + 1


def test_an_idle_height_deals_to_whoever_came() -> None:
    idle = follow(GENESIS, choices(GENESIS, (), all_present(GENESIS, 2)))
    assert idle.header.outcome is Outcome.IDLE
    assert idle.head == HEAD
    assert [one.peer for one in idle.state.plan.roster] == [one.peer for one in TRAINERS[:2]]
    nobody = follow(GENESIS, choices(GENESIS))
    assert nobody.state.plan.state is PlanState.IDLE
    assert Outcome.IDLE.text == "kept(idle)"
    assert {one.text for one in Outcome} == {
        "promoted", "kept(idle)", "kept(empty)", "kept(undecided)", "kept(blocked-by-canary)",
        "kept(finished)",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [ChoiceKind.WINDOW, ChoiceKind.BLOCKED])
def test_i07_what_was_not_promoted_is_dealt_again(kind: ChoiceKind) -> None:
    cohort = () if kind is ChoiceKind.WINDOW else UPDATES
    after = follow(DEALT, choices(DEALT, cohort, all_present(DEALT, 3), kind=kind))

    def dealt(decision: Decision) -> set[int]:
        return {shard for lease in decision.state.plan.roster for shard in lease.shards}

    assert dealt(after) >= dealt(DEALT)
    assert {entry.times for entry in after.state.in_hand} == {1}


def test_the_undecided_decision_is_defined_after_itself_and_the_same_for_all() -> None:
    first = follow(DEALT, UNDECIDED)
    second = follow(first, UNDECIDED)
    assert second.id == follow(follow(DEALT, UNDECIDED, setting_of()), UNDECIDED).id
    for before, after in ((DEALT, first), (first, second)):
        assert after.header.outcome is Outcome.UNDECIDED
        old, new = before.state, after.state
        assert (new.standing, new.suspended, new.pending) == (
            old.standing, old.suspended, old.pending,
        )  # fmt: skip
        assert new.progress == old.progress
        assert [one.peer for one in new.plan.roster] == [one.peer for one in old.plan.roster]
        assert set(new.plan.reducers) == set(old.plan.reducers)
        assert new.plan.height == old.plan.height + 1
        assert new.merge is None
        shards = [{s for lease in one.plan.roster for s in lease.shards} for one in (old, new)]
        assert shards[0] == shards[1]
    assert first.id != second.id


def test_an_idle_plan_may_end_undecided_too() -> None:
    after = follow(GENESIS, UNDECIDED)
    assert after.state.plan.state is PlanState.IDLE
    assert follow(after, UNDECIDED).height == 2


def test_standing_moves_by_what_was_decided() -> None:
    chosen = choices(
        DEALT,
        [UPDATES[0], rejected(1, Verdict.NONFINITE)],
        all_present(DEALT, 3),
    )
    state = follow(DEALT, chosen).state
    assert row_of(state, TRAINERS[0].peer).delivered == 1
    assert row_of(state, TRAINERS[1].peer).rejected == 1
    assert row_of(state, TRAINERS[2].peer) is None  # absent, and never delivered


@pytest.mark.parametrize("verdict", [Verdict.BASE, Verdict.SIZE])
def test_a_rejection_that_bad_luck_can_earn_is_no_more_than_a_miss(verdict: Verdict) -> None:
    known = replace(newcomer(TRAINERS[0].peer, SETTING.revision.schedule), delivered=3)
    previous = replace(DEALT, state=replace(DEALT.state, standing=(known,)))
    (row,) = follow(previous, choices(DEALT, [rejected(0, verdict)])).state.standing
    assert (row.missed, row.rejected, row.score) == (1, 0, FULL)


def test_a_disputed_update_moves_no_standing() -> None:
    known = replace(newcomer(TRAINERS[0].peer, SETTING.revision.schedule), delivered=3)
    previous = replace(DEALT, state=replace(DEALT.state, standing=(known,)))
    state = follow(previous, choices(DEALT, [rejected(0, Verdict.DISPUTED)])).state
    assert state.standing == (known,)


def after_reductions(*merged: Merged | None, inputs: bytes | None = None) -> State:
    """D(h+1) with the reductions that the drawn reducers signed for h."""
    drawn = [one for one in REDUCERS if one.peer in DEALT.state.plan.reducers]
    signed = [
        reduction(DEALT, who, what, inputs or right_inputs(NEXT))
        for who, what in zip(drawn, merged, strict=False)
        if what is not None
    ]
    chosen = choices(NEXT, reductions=tuple(sorted(signed, key=lambda one: one.signer)))
    return follow(NEXT, chosen).state


def test_a_wrong_merge_of_the_very_inputs_halves_the_score_a_height_later() -> None:
    assert NEXT.merged is not None
    wrong = replace(NEXT.merged, head=ArtifactId(bytes(32)))
    drawn = [one.peer for one in REDUCERS if one.peer in DEALT.state.plan.reducers]
    state = after_reductions(wrong, NEXT.merged)
    assert row_of(state, drawn[0]).score == FULL // 2
    assert row_of(state, drawn[0]).wrong_merges == 1
    assert row_of(state, drawn[1]) is None


def test_a_merge_of_other_inputs_or_none_costs_nothing() -> None:
    assert NEXT.merged is not None
    wrong = replace(NEXT.merged, head=ArtifactId(bytes(32)))
    drawn = [one.peer for one in REDUCERS if one.peer in DEALT.state.plan.reducers]
    for state in (after_reductions(wrong, wrong, inputs=bytes(32)), after_reductions()):
        assert all(row_of(state, peer) is None for peer in drawn)


def test_i11_a_quarantined_trainer_gets_no_lease_and_comes_back() -> None:
    setting, previous = SETTING, DEALT
    bad = TRAINERS[0].peer
    for _ in range(3):
        harm = Candidate(update(previous, TRAINERS[0]), Verdict.NONFINITE, FULL)
        previous = follow(previous, choices(previous, [harm], all_present(previous, 2)))
    until = row_of(previous.state, bad).quarantined_until
    assert until == previous.height + 33
    while previous.height + 1 < until:
        assert previous.state.plan.lease_of(bad) is None
        here = [beacon(previous.height + 1, one, setting=setting) for one in TRAINERS[:2]]
        previous = follow(previous, choices(previous, (), here))
    assert previous.state.plan.lease_of(bad) is not None


def test_i01_a_named_validator_leaves_the_set_while_a_quorum_remains() -> None:
    liars = VALIDATORS[:2]
    chosen = choices(DEALT, evidence=tuple(two_faces(1, one) for one in liars))
    after = follow(DEALT, chosen)
    assert after.state.suspended == (liars[0].peer,)
    assert after.state.pending == (liars[1].peer,)
    left = SETTING.members(after.state.suspended)
    assert [row.key for row in left.rows] == [one.key for one in VALIDATORS[1:]]
    assert (left.quorum, left.attention) == (3, SETTING.members(()).attention)
    assert after.header.members == members_hash(SETTING.members(()))
    assert after.header.next_members == members_hash(left)
    assert follow(after, choices(after)).header.members == members_hash(left)


def test_a_suspended_validator_trains_no_more() -> None:
    liar = VALIDATORS[0]
    here = [beacon(2, liar), beacon(2, TRAINERS[0])]
    after = follow(DEALT, choices(DEALT, (), here, evidence=(two_faces(1, liar),)))
    assert [one.peer for one in after.state.plan.roster] == [TRAINERS[0].peer]


def test_a_suspended_validator_is_not_drawn_as_reducer() -> None:
    liar = VALIDATORS[0]
    here = [beacon(2, liar, Service.REDUCE), beacon(2, REDUCERS[0], Service.REDUCE)]
    after = follow(DEALT, choices(DEALT, (), here, evidence=(two_faces(1, liar),)))
    assert after.state.plan.reducers == (REDUCERS[0].peer,)


def test_the_seed_of_a_plan_is_fixed_before_its_cohort_exists() -> None:
    other = follow(DEALT, choices(DEALT, UPDATES[:1], all_present(DEALT, 3, 2)))
    assert other.id != NEXT.id
    assert other.state.plan.seed == NEXT.state.plan.seed
    assert other.state.plan.seed != follow(other, choices(other)).state.plan.seed


def test_a_run_that_is_finished_stays_so() -> None:
    setting = setting_of(end_heads=1)
    dealt = running(2, 0, setting)
    chosen = choices(
        dealt, [update(dealt, TRAINERS[0], setting)], all_present(dealt, 2, 0, setting)
    )
    done = follow(dealt, chosen, setting)
    assert done.state.plan.state is PlanState.FINISHED
    assert follow(done, UNDECIDED, setting).state.plan.state is PlanState.FINISHED


NESTEROV = OuterRule("nesterov", 700_000, 900_000)


def test_i04_the_outer_state_goes_with_the_head_and_only_with_it() -> None:
    setting = replace(SETTING, revision=replace(SETTING.revision, outer=NESTEROV))
    dealt = running(trainers=2, setting=setting)
    here = all_present(dealt, setting=setting)
    window = choices(dealt, [update(dealt, TRAINERS[0], setting)], here)
    promoted = follow(dealt, window, setting)
    assert promoted.merged is not None
    assert promoted.header.outer == promoted.merged.outer is not None
    following = merge_job(setting, promoted, ())
    assert following is None
    cohort = choices(promoted, [update(promoted, TRAINERS[0], setting)]).cohort
    job = merge_job(setting, promoted, cohort)
    assert job is not None
    assert (job.outer, job.optimizer) == (promoted.header.outer, NESTEROV)
    blocked = replace(
        choices(promoted, [update(promoted, TRAINERS[0], setting)]), kind=ChoiceKind.BLOCKED
    )
    kept = follow(promoted, blocked, setting)
    assert kept.merged is not None
    assert kept.merged.outer != promoted.header.outer
    # Or a velocity that overshoots would have all later ones blocked.
    assert kept.header.outer is None
    assert artifacts_of(kept) == (promoted.head,)
    empty = follow(promoted, choices(promoted), setting)
    assert artifacts_of(empty) == artifacts_of(promoted) == (promoted.head, promoted.header.outer)
