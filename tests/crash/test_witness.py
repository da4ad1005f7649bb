"""What the crash lane would find: a checker that finds nothing must be able to find something."""

from dataclasses import replace

import pytest

from p2pd.core.signed import Signed
from p2pd.core.talk import Objects, dump_talk
from p2pd.core.votes import Vote
from p2pd.sim.store import MemoryLedger
from p2pd.wire.envelope import dump
from tests.core.builders import GENESIS, SETTING, VALIDATORS, prevote, record
from tests.core.voting.test_evidence import GUILTY, INNOCENT
from tests.crash.witness import Witness, counted_twice, forks
from tests.node.lane_bench import FIRST, SECOND


@pytest.mark.parametrize("pair", GUILTY)
def test_two_votes_that_break_the_rules_contradict(pair: tuple[Signed[Vote], ...]) -> None:
    witness = Witness(SETTING)
    for vote in pair:
        witness.take(vote, "wire")
        witness.take(vote, "ledgers")  # the same again is none
    assert len(witness.contradictions()) == 1
    assert witness.sources == {"wire": 2}


@pytest.mark.parametrize("pair", INNOCENT)
def test_two_votes_that_keep_the_rules_do_not(pair: tuple[Signed[Vote], ...]) -> None:
    witness = Witness(SETTING)
    for vote in pair:
        witness.take(vote, "wire")
    assert witness.contradictions() == []


def test_votes_are_taken_from_messages_and_certificates() -> None:
    witness = Witness(SETTING)
    one, other = (prevote(2, VALIDATORS[0], value) for value in (SECOND.id, FIRST.id))
    witness.received(VALIDATORS[1].peer, dump_talk(Objects((dump(one),))))
    witness.certified(record(SECOND))
    witness.read(MemoryLedger())
    before = len(witness.said)
    assert witness.sources["certificates"] > 0
    assert witness.contradictions() == []
    witness.received(VALIDATORS[1].peer, dump_talk(Objects((dump(other),))))
    assert len(witness.said) == before
    assert len(witness.contradictions()) == 1


def test_what_counts_twice_is_named() -> None:
    assert counted_twice([FIRST, SECOND]) == []
    found = counted_twice([FIRST, SECOND, FIRST, SECOND])
    assert any(line.startswith("update ") for line in found)
    assert any(line.startswith("microshard ") for line in found)


def test_two_lineages_are_told_from_a_short_one() -> None:
    assert forks({"a": [FIRST, SECOND], "b": [FIRST], "c": [SECOND]}) == []
    assert forks({"a": [FIRST], "b": []}) == []
    other = replace(SECOND, header=replace(SECOND.header, previous=GENESIS.id))
    assert forks({"a": [FIRST, SECOND], "b": [FIRST, other]}) == [
        "b and a have two decisions at height 2"
    ]
