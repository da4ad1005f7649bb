from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.chain import check_jump, check_record
from p2pd.core.decision import Decision, Outcome, Record
from p2pd.core.derive import Setting, derive
from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, DecisionId
from p2pd.core.work import HeadStep, OuterRule
from p2pd.errors import RemoteError
from p2pd.wire.envelope import load_choices
from p2pd.wire.records import dump_record, load_record
from tests.cli.chains import certify
from tests.core.builders import (
    GENESIS,
    REDUCERS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    record,
    reduction,
    right_inputs,
    running,
    setting_of,
    two_faces,
    update,
)

NETWORK = SETTING.genesis.network
DEALT = running(trainers=2, reducers=2)


@cache
def chain() -> tuple[Decision, ...]:
    """Idle, two promoted windows (the second with reductions and evidence), one by the set that is left."""
    decisions = [GENESIS, DEALT]
    for height in (2, 3, 4):
        previous = decisions[-1]
        reductions: tuple[Any, ...] = ()
        if height == 3:
            assert previous.merged is not None
            drawn = [one for one in REDUCERS if one.peer in DEALT.state.plan.reducers]
            inputs = right_inputs(previous)
            reductions = tuple(reduction(DEALT, one, previous.merged, inputs) for one in drawn)
        evidence = (two_faces(2, VALIDATORS[0]),) if height == 3 else ()
        cohort = [update(previous, one) for one in TRAINERS[:2]]
        here = all_present(previous, 2, 2)
        chosen = choices(previous, cohort, here, reductions=reductions, evidence=evidence)
        decisions.append(follow(previous, chosen))
    return tuple(decisions)


def check(previous: Decision, one: Record, setting: Setting = SETTING) -> None:
    """As a node does with a record that comes from anywhere."""
    read_and_check(previous, dump_record(one), setting)


def read_and_check(previous: Decision, data: bytes, setting: Setting = SETTING) -> None:
    loaded = load_record(data, NETWORK)
    check_record(setting, previous, loaded, load_choices(loaded.decision.choices, NETWORK))


def test_i02_a_chain_is_checked_link_by_link_against_the_set_of_each_height() -> None:
    decisions = chain()
    assert [one.header.outcome for one in decisions[1:]] == [Outcome.IDLE, *[Outcome.PROMOTED] * 3]
    for previous, decision in pairwise(decisions):
        check(previous, Record(decision, certify(SETTING, decision, VALIDATORS[1:])))


def test_i02_too_few_votes_or_a_strangers_decide_nothing() -> None:
    previous, decision = chain()[1:3]
    for signers in (VALIDATORS[:2], [*VALIDATORS[:2], STRANGER], [*VALIDATORS[:2], VALIDATORS[0]]):
        with pytest.raises(RemoteError, match="height 2: "):
            check(previous, Record(decision, certify(SETTING, decision, signers)))


def test_i11_a_suspended_validators_vote_decides_nothing() -> None:
    previous, decision = chain()[3:5]
    with pytest.raises(RemoteError, match="not of a member"):
        check(previous, Record(decision, certify(SETTING, decision, VALIDATORS[:3])))
    # A height earlier it was still counted.
    check(chain()[2], Record(chain()[3], certify(SETTING, chain()[3], VALIDATORS[:3])))


def jump(known: Decision, one: Record) -> None:
    check_jump(SETTING, known, load_record(dump_record(one), NETWORK))


def test_i02_a_later_decision_of_the_same_set_is_known_without_those_between() -> None:
    decisions = chain()
    for known, height in ((GENESIS, 1), (GENESIS, 2), (GENESIS, 3), (DEALT, 3), (decisions[3], 4)):
        jump(known, Record(decisions[height], certify(SETTING, decisions[height], VALIDATORS[1:])))
    with pytest.raises(RemoteError, match="height 1: not after decision 1"):
        jump(DEALT, record(DEALT))


def test_i02_a_later_decision_of_another_set_is_not() -> None:
    """The set changed at height 3: whoever knows less must learn that decision first."""
    decisions = chain()
    last = Record(decisions[4], certify(SETTING, decisions[4], VALIDATORS[1:]))
    with pytest.raises(RemoteError, match="height 4: names another validator set"):
        jump(decisions[2], last)
    as_the_old_set = rewritten(decisions[4], members=decisions[2].header.members)
    with pytest.raises(RemoteError, match="height 4: "):
        jump(decisions[3], signed(as_the_old_set))
    few = Record(as_the_old_set, certify(SETTING, as_the_old_set, VALIDATORS[:2]))
    with pytest.raises(RemoteError, match="height 4: "):
        jump(decisions[2], few)


@pytest.mark.parametrize(
    "change",
    [
        {"choices": bytes(32)},
        {"merged": bytes(32)},
        {"state": bytes(32)},
        {"next_members": bytes(32)},
        {"head": ArtifactId(bytes(32))},
        {"height": 7},
        {"term": bytes(32)},
        {"revision": bytes(32)},
    ],
    ids=str,
)
def test_i04_a_later_decision_whose_header_is_of_another_body_is_refused(
    change: dict[str, Any],
) -> None:
    lie = rewritten(chain()[3], **change)
    with pytest.raises(RemoteError, match=r"height [37]: "):
        jump(GENESIS, signed(lie))


def signed(decision: Decision) -> Record:
    """Certified whatever it says, as by a quorum of liars."""
    return record(decision)


def rewritten(decision: Decision, **header: Any) -> Decision:
    return replace(decision, header=replace(decision.header, **header))


@pytest.mark.parametrize(
    "change",
    [
        {"head": ArtifactId(bytes(32))},
        {"outer": ArtifactId(bytes(32))},
        {"outcome": Outcome.EMPTY},
        {"choices": bytes(32)},
        {"merged": bytes(32)},
        {"state": bytes(32)},
        {"next_members": bytes(32)},
        {"members": bytes(32)},
        {"previous": DecisionId(bytes(32))},
        {"previous": None},
        {"height": 3},
    ],
    ids=str,
)
def test_i04_a_certified_header_that_does_not_follow_is_refused(change: dict[str, Any]) -> None:
    previous, decision = chain()[1:3]
    check(previous, signed(decision))
    with pytest.raises(RemoteError, match=r"height [23]: "):
        check(previous, signed(rewritten(decision, **change)))


def test_i02_a_certified_body_that_does_not_follow_is_refused() -> None:
    previous, decision = chain()[1:3]
    state = decision.state
    richer = replace(state, progress=replace(state.progress, samples=10**6))
    other_choices = encode(choices(previous, (), all_present(previous, 2, 2)))
    for lie in (
        replace(decision, state=richer),
        replace(decision, merged=None),
        replace(decision, choices=other_choices),
        replace(decision, state=replace(state, standing=())),
    ):
        with pytest.raises(RemoteError, match="does not follow from its own choices"):
            check(previous, signed(lie))


def test_i07_choices_that_break_a_rule_are_refused_even_when_certified() -> None:
    previous, decision = chain()[1:3]
    replay = follow(decision, choices(decision, [update(previous, TRAINERS[0])]))
    with pytest.raises(RemoteError, match="height 3: update for height 2"):
        check(decision, signed(replay))


def test_a_record_is_of_the_next_height_and_carries_its_own_certificate() -> None:
    decisions = chain()
    for previous, decision in ((decisions[0], decisions[2]), (decisions[2], decisions[2])):
        with pytest.raises(RemoteError, match="does not follow decision"):
            check(previous, signed(decision))
    with pytest.raises(RemoteError, match="no certificate"):
        check(decisions[1], Record(decisions[2], None))
    other = certify(SETTING, decisions[3], VALIDATORS[:3])
    with pytest.raises(RemoteError, match="for another decision"):
        check(decisions[1], Record(decisions[2], other))


def test_i03_votes_of_another_height_or_revision_certify_nothing() -> None:
    previous, decision = chain()[1:3]
    elsewhere = setting_of(max_roster=3)
    wrong_revision = certify(elsewhere, decision, VALIDATORS[:3])
    wrong_height = certify(SETTING, rewritten(decision, height=3), VALIDATORS[:3])
    for certificate in (wrong_revision, replace(wrong_height, value=decision.id)):
        with pytest.raises(RemoteError, match=r"not of a member, for this height|not a precommit"):
            check(previous, Record(decision, certificate))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([1, 2, 3, 4]), st.data())
def test_i03_not_one_bit_of_a_certified_record_can_be_changed(
    height: int, data: st.DataObject
) -> None:
    previous, decision = chain()[height - 1 : height + 1]
    sound = dump_record(Record(decision, certify(SETTING, decision, VALIDATORS[1:])))
    changed = bytearray(sound)
    bit = data.draw(st.integers(0, 8 * len(sound) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RemoteError):
        read_and_check(previous, bytes(changed))


@pytest.mark.parametrize("keeps_state", [True, False])
def test_i04_a_decision_without_the_outer_state_of_its_rule_is_refused(keeps_state: bool) -> None:
    rule = OuterRule("nesterov", 700_000, 900_000)
    with_state = replace(SETTING, revision=replace(SETTING.revision, outer=rule))
    setting, other = (with_state, SETTING) if keeps_state else (SETTING, with_state)
    dealt = running(trainers=2, setting=setting)
    chosen = choices(
        dealt, [update(dealt, TRAINERS[0], setting)], all_present(dealt, setting=setting)
    )
    sound = follow(dealt, chosen, setting)
    check_record(setting, dealt, record(sound, setting), chosen)
    outer = None if keeps_state else ArtifactId(bytes(32))
    assert sound.merged is not None
    merged = replace(sound.merged, outer=outer)
    wrong = derive(setting, dealt, chosen, encode(chosen), merged)
    with pytest.raises(RemoteError, match="its outer state is not what the revision's rule keeps"):
        check_record(setting, dealt, record(wrong, setting), chosen)
    assert other.revision.id != setting.revision.id


IN_STEPS = replace(SETTING, revision=replace(SETTING.revision, head_codec="int8"))


@pytest.mark.parametrize(
    ("setting", "step"),
    [
        (IN_STEPS, None),
        (IN_STEPS, HeadStep(ArtifactId(bytes(32)), ArtifactId(b"s" * 32))),
        (SETTING, HeadStep(SETTING.revision.head, ArtifactId(b"s" * 32))),
    ],
)
def test_i04_a_decision_whose_head_is_not_made_as_the_revision_says_is_refused(
    setting: Setting, step: HeadStep | None
) -> None:
    """No step, one from another head, and one where heads are as merged."""
    dealt = running(trainers=2, setting=setting)
    chosen = choices(
        dealt, [update(dealt, TRAINERS[0], setting)], all_present(dealt, setting=setting)
    )
    sound = follow(dealt, chosen, setting)
    check_record(setting, dealt, record(sound, setting), chosen)
    assert sound.merged is not None
    assert (sound.step is not None) == (setting is IN_STEPS)
    merged = replace(sound.merged, step=step)
    wrong = derive(setting, dealt, chosen, encode(chosen), merged)
    with pytest.raises(RemoteError, match="its head is not made as the revision says"):
        check_record(setting, dealt, record(wrong, setting), chosen)
