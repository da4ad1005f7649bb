"""Two certified decisions of one height."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.decision import Record
from p2pd.core.forks import Fork, Split, fork_of, named, signers, told
from p2pd.core.ids import short
from tests.core.builders import (
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    record,
    running,
    two_faces,
    update,
)

FIRST = running(trainers=2)
OTHER = running(trainers=3)
"""Another decision of the same height."""


def fork_with(theirs: Record) -> Fork | None:
    return fork_of(SETTING, record(FIRST), theirs)


def test_i01_two_certificates_of_one_height_are_a_fork_whose_common_signers_are_named() -> None:
    fork = fork_with(record(OTHER))
    assert fork is not None
    assert (fork.first.value, fork.second.value) == (FIRST.id, OTHER.id)
    both = {vote.signer for vote in fork.first.precommits} & {
        vote.signer for vote in fork.second.precommits
    }
    assert set(named(SETTING, FIRST, fork)) == both
    text = told(fork, named(SETTING, FIRST, fork))
    assert all(short(each) in text for each in (FIRST.id, OTHER.id, *both))


def test_i01_what_no_quorum_stands_behind_is_no_fork() -> None:
    certificate = record(OTHER).certificate
    assert certificate is not None
    few = replace(certificate, precommits=certificate.precommits[:1])
    elsewhere = replace(certificate, value=FIRST.id)
    for theirs in (
        record(FIRST),
        replace(record(OTHER), certificate=None),
        replace(record(OTHER), certificate=few),
        replace(record(OTHER), certificate=elsewhere),
        record(
            follow(FIRST, choices(FIRST, [update(FIRST, TRAINERS[0])], all_present(FIRST, 2, 0)))
        ),
    ):
        assert fork_with(theirs) is None


def test_a_certificate_is_judged_by_the_set_that_signed_it_not_by_the_one_that_follows() -> None:
    liar = VALIDATORS[3]
    suspending = follow(FIRST, choices(FIRST, evidence=(two_faces(1, liar),)))
    assert suspending.state.suspended == (liar.peer,)
    assert liar.key in signers(SETTING, suspending).weights
    after = follow(suspending, choices(suspending))
    assert liar.key not in signers(SETTING, after).weights


@given(st.integers(1, 2**40), st.integers(0, 2**40))
def test_the_first_height_that_differs_is_found_by_halves(top: int, last_same: int) -> None:
    last_same = min(last_same, top)
    split, asked = Split(top), []
    while (height := split.next()) is not None:
        asked.append(height)
        split.compared(height, same=height <= last_same)
    assert len(asked) <= top.bit_length() + 2
    if last_same < top:
        assert last_same + 1 in asked


def test_nothing_is_asked_about_a_chain_of_another_genesis() -> None:
    assert Split(0).next() is None
