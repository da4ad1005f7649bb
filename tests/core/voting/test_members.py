import pytest

from p2pd.core.ids import peer_id
from p2pd.core.voting.members import Member, Members
from tests.core.voting.making import key_of, unit_members


@pytest.mark.parametrize(
    ("count", "quorum", "expected"), [(1, 1, 2), (3, 2, 5), (4, 3, 6), (7, 5, 10)]
)
def test_the_undecided_round_leaves_each_member_a_turn(
    count: int, quorum: int, expected: int
) -> None:
    assert unit_members(count, quorum).undecided_round == expected


def test_proposers_take_turns_in_the_order_of_their_peer_ids() -> None:
    members = unit_members(4, 3)
    turns = [members.proposer(height=10, round_=round_).peer for round_ in range(8)]
    assert turns == [members.rows[(2 + n) % 4].peer for n in range(8)]
    assert [row.peer for row in members.rows] == sorted(row.peer for row in members.rows)


def test_suspended_keys_neither_count_nor_propose_and_thresholds_stay() -> None:
    rows = unit_members(4, 3).rows
    members = Members.of(rows, 3, suspended={rows[1].key})
    assert (members.thresholds.weight, members.quorum, members.attention) == (4, 3, 2)
    assert (members.total, len(members.rows)) == (3, 3)
    assert rows[1].key not in members.weights
    assert members.undecided_round == 3 + (3 - 3) + 1
    assert members.positions == {rows[0].key: 0, rows[2].key: 1, rows[3].key: 2}


def test_weights_decide_how_few_make_a_quorum() -> None:
    rows = [Member(peer_id(key_of(n)), key_of(n), weight) for n, weight in enumerate([5, 1, 1, 1])]
    assert Members.of(rows, 6).undecided_round == 4 + (4 - 2) + 1


def test_sets_that_make_no_sense_are_refused() -> None:
    rows = unit_members(3, 2).rows
    with pytest.raises(ValueError, match="twice"):
        Members.of([*rows, rows[0]], 3)
    with pytest.raises(ValueError, match="weight must be at least 1"):
        Members.of([Member(rows[0].peer, rows[0].key, 0)], 1)
    with pytest.raises(ValueError, match="every validator is suspended"):
        Members.of(rows, 2, suspended={row.key for row in rows})
