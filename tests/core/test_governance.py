from dataclasses import replace
from typing import Any

import pytest

from p2pd.core.checking import check_choices
from p2pd.core.decision import Decision, Outcome, PlanState
from p2pd.core.derive import UNDECIDED, Setting, genesis_decision
from p2pd.core.genesis import Endorsement
from p2pd.core.governance import (
    RECORDS_PER_DECISION,
    Ends,
    Extend,
    Governed,
    SignedGovernance,
    beginning,
    check_endorsed,
)
from p2pd.core.ids import RevisionId
from p2pd.core.messages import Candidate, ChoiceKind, Choices
from p2pd.core.work import FULL, Progress, Verdict
from p2pd.errors import RemoteError
from tests.cli.chains import key
from tests.core.builders import (
    GENESIS,
    SETTING,
    STRANGER,
    TRAINERS,
    all_present,
    choices,
    extension,
    follow,
    genesis,
    running,
    setting_of,
    update,
)

NETWORK = SETTING.genesis.network
OTHER = RevisionId(bytes(32))
PARENTS = sorted((key(f"authority {n}") for n in range(3)), key=lambda one: one.key)
SHARED = genesis(authority=tuple(one.key for one in reversed(PARENTS)), threshold=2)


def finished() -> tuple[Setting, Decision]:
    """A run that was to end after one head, and its last decision."""
    setting = setting_of(end_heads=1)
    dealt = running(1, 0, setting)
    last = follow(dealt, choices(dealt, [update(dealt, TRAINERS[0], setting)]), setting)
    assert last.state.plan.state is PlanState.FINISHED
    return setting, last


@pytest.mark.parametrize(
    ("given", "after"),
    [
        (Extend(OTHER, 7, None), Ends(7, 3)),
        (Extend(OTHER, None, 4), Ends(5, 4)),
        (Extend(OTHER, 0, 0), Ends(0, 0)),
        (Extend(OTHER, 5, 3), Ends(5, 3)),
        (Extend(OTHER, 2, 9), Ends(5, 9)),
    ],
)
def test_ends_are_raised_and_never_lowered(given: Extend, after: Ends) -> None:
    assert Ends(5, 3).extended(given, higher_is_better=True) == after
    assert Ends(0, 0).extended(given, higher_is_better=True) == Ends(0, 0)


@pytest.mark.parametrize(
    ("higher", "given", "after"), [(True, 9, 9), (True, 2, 5), (False, 2, 2), (False, 9, 5)]
)
def test_a_target_moves_away_only(higher: bool, given: int, after: int) -> None:
    wish = Extend(OTHER, None, None, given)
    assert Ends(0, 0, 5).extended(wish, higher_is_better=higher) == Ends(0, 0, after)
    assert Ends(0, 0).extended(wish, higher_is_better=higher) == Ends(0, 0)


def test_a_later_target_is_not_reached_yet_and_another_end_changes_nothing_of_that() -> None:
    there = Governed(beginning(NETWORK), Ends(9, 0, 700_000), reached=True)
    assert there.over(GENESIS.state.progress)
    raised = extension(end_heads=None, target=800_000)
    assert not there.after((raised,), SETTING.revision).reached
    for other in (extension(end_heads=20), extension(end_heads=None, target=600_000)):
        assert there.after((other,), SETTING.revision).reached


def test_a_run_without_an_end_reaches_none() -> None:
    far = Progress(10**6, 0, 0, 10**6, 0)
    assert not Ends(0, 0).reached(far)
    assert Ends(10**6, 0).reached(far)
    assert Ends(0, 10**6).reached(far)
    assert not Ends(10**6 + 1, 10**6 + 1).reached(far)


@pytest.mark.parametrize("ends", [(None, None), (-1, None), (None, 2**60)])
def test_an_extension_has_an_end(ends: tuple[int | None, int | None]) -> None:
    with pytest.raises(ValueError, match=r"an extension has an end|an end is a number"):
        Extend(OTHER, *ends)


def test_records_are_numbered_from_one() -> None:
    with pytest.raises(ValueError, match="numbered from 1"):
        extension(number=0)


def test_records_of_other_revisions_are_counted_and_change_nothing() -> None:
    first = extension(revision=OTHER)
    second = extension(first.place)
    before = Governed(beginning(NETWORK), Ends(5, 0))
    after = before.after((first,), SETTING.revision)
    assert after == Governed(first.place, Ends(5, 0))
    assert after.after((second,), SETTING.revision) == Governed(second.place, Ends(9, 0))


def shared(*signers: int) -> SignedGovernance:
    return extension(
        setting=Setting(SHARED, SETTING.revision), signers=[PARENTS[n] for n in signers]
    )


def test_a_record_is_endorsed_by_the_threshold_of_the_authority() -> None:
    check_endorsed(SHARED, shared(0, 2))
    check_endorsed(SHARED, shared(0, 1, 2))
    with pytest.raises(RemoteError, match="with 1 of 2 endorsements"):
        check_endorsed(SHARED, shared(1))
    with pytest.raises(RemoteError, match="another network"):
        check_endorsed(SHARED, extension())


def test_endorsements_are_the_authoritys_each_once() -> None:
    sound = shared(0, 1)
    one, two = sound.endorsements
    stranger = Endorsement(STRANGER.key, STRANGER.sign(sound.record.id))
    for false in ((one, one), (two, one), (one, stranger), (one, two, stranger)):
        with pytest.raises(RemoteError, match="must be the authority's, ascending"):
            check_endorsed(SHARED, SignedGovernance(sound.record, false))


def refused(previous: Decision, chosen: Choices, setting: Setting = SETTING) -> str:
    with pytest.raises(RemoteError) as caught:
        check_choices(setting, previous, chosen)
    return str(caught.value)


def carrying(*records: SignedGovernance, previous: Decision = GENESIS) -> Choices:
    return choices(previous, governance=records)


def test_a_decision_takes_the_next_records_in_order() -> None:
    first = extension()
    second = extension(first.place, end_heads=12)
    check_choices(SETTING, GENESIS, carrying(first, second))
    follows = "governance record 2 does not follow"
    assert refused(GENESIS, carrying(second)) == follows
    assert refused(GENESIS, carrying(first, extension(first.place, previous=NETWORK))) == follows
    assert refused(GENESIS, carrying(extension(number=2))) == follows
    assert "of 1 endorsements" in refused(GENESIS, carrying(extension(signers=())))
    place, many = None, []
    for _ in range(RECORDS_PER_DECISION + 1):
        many.append(extension(place))
        place = many[-1].place
    check_choices(SETTING, GENESIS, carrying(*many[:-1]))
    assert "at most 4 governance records" in refused(GENESIS, carrying(*many))


def test_a_replay_is_refused_once_a_decision_took_the_record() -> None:
    record = extension()
    after = follow(GENESIS, choices(GENESIS, [], all_present(GENESIS), governance=(record,)))
    assert after.state.governed == Governed(record.place, Ends(0, 0))
    again = "governance record 1 does not follow"
    assert refused(after, carrying(record, previous=after)) == again
    assert refused(after, carrying(extension(end_heads=99), previous=after)) == again


def test_a_finished_run_goes_on_from_the_decision_that_takes_its_extension() -> None:
    setting, last = finished()
    empty = choices(last)
    assert refused(last, empty, setting) == "IDLE proposed while the plan is FINISHED"
    chosen = replace(empty, governance=(extension(setting=setting, end_heads=2),))
    check_choices(setting, last, chosen)
    woken = follow(last, chosen, setting)
    assert woken.state.plan.state is PlanState.IDLE
    assert woken.head == last.head
    assert woken.state.governed.ends == Ends(2, 0)
    dealt = follow(woken, choices(woken, [], all_present(woken, 1, setting=setting)), setting)
    done = follow(dealt, choices(dealt, [update(dealt, TRAINERS[0], setting)]), setting)
    assert dealt.state.plan.state is PlanState.RUNNING
    assert done.state.plan.state is PlanState.FINISHED


def test_an_extension_that_is_none_leaves_a_finished_run_finished() -> None:
    """Another revision's, or an end that lies behind: it is taken, since the log has no gaps."""
    setting, last = finished()
    for record in (
        extension(setting=setting, end_heads=1),
        extension(setting=setting, revision=OTHER),
    ):
        chosen = replace(choices(last), governance=(record,))
        check_choices(setting, last, chosen)
        after = follow(last, chosen, setting)
        assert after.state.plan.state is PlanState.FINISHED
        assert after.state.governed.log == record.place


def test_a_running_window_takes_a_record_beside_its_cohort() -> None:
    setting = setting_of(end_heads=1)
    dealt = running(1, 0, setting)
    record = extension(setting=setting)
    chosen = choices(dealt, [update(dealt, TRAINERS[0], setting)], governance=(record,))
    assert chosen.kind is ChoiceKind.WINDOW
    check_choices(setting, dealt, chosen)
    after = follow(dealt, chosen, setting)
    assert after.state.progress.heads == 1
    assert after.state.plan.state is not PlanState.FINISHED


def test_the_ends_in_force_begin_as_the_revision_has_them() -> None:
    setting = setting_of(end_heads=3, end_epochs=2)
    assert running(1, 0, setting).state.governed == Governed(beginning(NETWORK), Ends(3, 2))


def at_target(**changes: Any) -> tuple[Setting, Decision, Choices]:
    setting = setting_of(target=700_000)
    dealt = running(2, 0, setting)
    return setting, dealt, choices(dealt, kind=ChoiceKind.REACHED, **changes)


def test_a_run_whose_head_reaches_the_target_is_over_and_keeps_that_head() -> None:
    setting, dealt, chosen = at_target()
    check_choices(setting, dealt, chosen)
    over = follow(dealt, chosen, setting)
    assert over.header.outcome is Outcome.FINISHED
    assert over.header.outcome.text == "kept(finished)"
    assert over.head == dealt.head
    assert over.state.plan.state is PlanState.FINISHED
    assert over.state.progress.heads == dealt.state.progress.heads
    leased = {shard for lease in dealt.state.plan.roster for shard in lease.shards}
    assert {one.shard for one in over.state.returned} == leased
    assert all(one.times == 0 for one in over.state.returned), "nobody is to blame"
    assert over.state.standing == dealt.state.standing
    assert follow(over, UNDECIDED, setting).state.plan.state is PlanState.FINISHED


def test_a_later_target_has_it_go_on() -> None:
    setting, dealt, chosen = at_target()
    over = follow(dealt, chosen, setting)
    record = extension(setting=setting, end_heads=None, target=800_000)
    woken = follow(over, choices(over, governance=(record,)), setting)
    assert woken.state.plan.state is PlanState.IDLE
    assert woken.state.governed == Governed(record.place, Ends(0, 0, 800_000))


def test_what_ends_a_run_decides_nothing_else_and_only_where_there_is_a_target() -> None:
    setting, dealt, chosen = at_target()
    plain = running(2)
    assert (
        refused(plain, choices(plain, kind=ChoiceKind.REACHED)) == "the run has no target to reach"
    )
    for more in (
        {"cohort": (Candidate(update(dealt, TRAINERS[0], setting), Verdict.ACCEPTED, FULL),)},
        {"presence": tuple(all_present(dealt, 1, setting=setting))},
    ):
        assert (
            refused(dealt, replace(chosen, **more), setting)
            == "what ends a run decides nothing else"
        )
    idle = genesis_decision(setting)
    assert "REACHED proposed while the plan is IDLE" in refused(idle, chosen, setting)
