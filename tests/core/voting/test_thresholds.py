import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.voting.thresholds import Survival, Thresholds, fewest_with, survival


@pytest.mark.parametrize(
    ("count", "quorum", "crashes", "safe", "live", "attention"),
    [
        (1, 1, 0, 0, 0, 1),
        (3, 2, 1, 0, 0, 1),
        (4, 3, 1, 1, 1, 2),
        (5, 4, 1, 2, 1, 2),
        (7, 5, 2, 2, 2, 3),
    ],
)
def test_known_sets_survive_what_is_promised(
    count: int, quorum: int, crashes: int, safe: int, live: int, attention: int
) -> None:
    found = survival([1] * count, quorum)
    assert (found.crashes, found.liars_safe, found.liars_live) == (crashes, safe, live)
    assert Thresholds(count, quorum).attention == attention


def test_validators_that_alone_halt_or_decide_are_pointed_out() -> None:
    assert survival([3, 1, 1], 3) == Survival(0, 0, 0, halting=(0,), deciding=(0,))
    assert survival([2, 1, 1], 3).halting == (0,)
    assert survival([1], 1) == Survival(0, 0, 0, halting=(0,), deciding=(0,))


@pytest.mark.parametrize(("weight", "quorum"), [(3, 1), (4, 2), (3, 4), (0, 0)])
def test_a_quorum_is_more_than_half_and_at_most_all(weight: int, quorum: int) -> None:
    with pytest.raises(ValueError, match=f"got {quorum}"):
        Thresholds(weight, quorum)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_whatever_may_fail_leaves_a_quorum_and_an_honest_voice(
    weights: list[int], data: st.DataObject
) -> None:
    total = sum(weights)
    quorum = data.draw(st.integers(total // 2 + 1, total))
    found, thresholds = survival(weights, quorum), Thresholds(total, quorum)
    heaviest = sorted(weights, reverse=True)
    assert sum(heaviest[found.crashes :]) >= quorum
    assert sum(heaviest[: found.liars_live]) < thresholds.attention
    assert 2 * quorum - total > sum(heaviest[: found.liars_safe])
    assert sum(heaviest[: fewest_with(weights, quorum)]) >= quorum
