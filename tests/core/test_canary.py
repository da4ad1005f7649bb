from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.canary import LOSS_FLOOR, judge, regression
from p2pd.core.ids import ArtifactId
from p2pd.core.revision import Canary
from p2pd.core.work import MILLION, Evaluation

BOUNDS = Canary(samples=32, accept=20_000, reject=100_000)
ACCEPT, UNSURE, REJECT = 1, 0, -1


def losses(*private: int) -> Evaluation:
    return Evaluation(ArtifactId(bytes(32)), True, 900_000, 300_000, 360, private)


def shifted(old: Evaluation, by: int) -> Evaluation:
    return replace(old, private=tuple(loss + by for loss in old.private))


BASE = losses(*(400_000 + 10_000 * n for n in range(32)))
MEAN = sum(BASE.private) // 32
NAN = replace(BASE, finite=False, private=())


@pytest.mark.parametrize(
    ("worse_by", "answer"),
    [(-0.5, ACCEPT), (0, ACCEPT), (0.02, ACCEPT), (0.03, UNSURE), (0.099, UNSURE), (0.11, REJECT)],
)
def test_a_head_is_judged_by_how_much_worse_it_is(worse_by: float, answer: int) -> None:
    new = shifted(BASE, int(MEAN * worse_by))
    assert judge(new, BASE, None, BOUNDS) == answer


def test_the_bounds_themselves_are_on_the_mild_side() -> None:
    flat = losses(*[MILLION] * 32)
    assert judge(shifted(flat, 20_000), flat, None, BOUNDS) == ACCEPT
    assert judge(shifted(flat, 20_001), flat, None, BOUNDS) == UNSURE
    assert judge(shifted(flat, 100_000), flat, None, BOUNDS) == UNSURE
    assert judge(shifted(flat, 100_001), flat, None, BOUNDS) == REJECT


def test_noise_alone_is_no_regression() -> None:
    flat = losses(*[MILLION] * 32)
    noisy = losses(*(MILLION + (600_000 if n % 2 else -500_000) for n in range(32)))
    # Worse by a twentieth on average, but half of the samples became better.
    assert sum(noisy.private) > sum(flat.private) + 32 * 49_000
    assert judge(noisy, flat, None, BOUNDS) == ACCEPT
    assert judge(shifted(flat, 150_000), flat, None, BOUNDS) == REJECT


def test_a_head_that_cannot_be_evaluated_is_rejected() -> None:
    assert judge(NAN, BASE, None, BOUNDS) == REJECT
    assert judge(NAN, NAN, None, BOUNDS) == REJECT
    assert judge(BASE, NAN, None, BOUNDS) == ACCEPT
    assert judge(BASE, BASE, NAN, BOUNDS) == ACCEPT


def test_against_the_best_recent_head_the_bounds_are_twice_as_wide() -> None:
    flat = losses(*[MILLION] * 32)
    for worse, answer in (
        (40_000, ACCEPT),
        (100_000, UNSURE),
        (200_000, UNSURE),
        (202_000, REJECT),
    ):
        new = shifted(flat, worse)
        assert judge(new, new, flat, BOUNDS) == answer
        assert judge(new, NAN, flat, BOUNDS) == answer
    assert judge(shifted(flat, 150_000), flat, shifted(flat, 150_000), BOUNDS) == REJECT


def test_a_slow_decline_is_seen_against_the_best_where_each_step_looks_harmless() -> None:
    best = step = losses(*[MILLION] * 32)
    answers = []
    for _ in range(15):
        new = shifted(step, 15_000)
        assert judge(new, step, None, BOUNDS) == ACCEPT
        answers.append(judge(new, step, best, BOUNDS))
        step = new
    assert answers == sorted(answers, reverse=True)
    assert answers[-1] == REJECT


def test_near_zero_a_relative_bound_does_not_measure_noise() -> None:
    tiny = losses(*[10] * 32)
    assert judge(shifted(tiny, 100), tiny, None, BOUNDS) == ACCEPT
    assert regression(shifted(tiny, 100), tiny) == 100 * MILLION // LOSS_FLOOR


def test_losses_of_any_size_are_computed_exactly() -> None:
    huge = losses(*[10**30 + n for n in range(8)])
    assert regression(huge, huge) == 0
    assert regression(shifted(huge, 10**29), huge) in (99_999, 100_000)
    assert judge(shifted(huge, 10**30), huge, None, BOUNDS) == REJECT


def test_a_single_sample_has_no_noise() -> None:
    assert regression(losses(1_100_000), losses(MILLION)) == 100_000


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=40).flatmap(
        lambda old: st.tuples(
            st.just(old),
            st.lists(st.integers(0, 10**9), min_size=len(old), max_size=len(old)),
        )
    )
)
def test_the_same_losses_give_the_same_integer_and_no_worse_is_no_regression(
    both: tuple[list[int], list[int]],
) -> None:
    old, new = both
    value = regression(losses(*new), losses(*old))
    assert isinstance(value, int)
    pairs = sorted(zip(old, new, strict=True), reverse=True)
    turned = regression(losses(*(n for _, n in pairs)), losses(*(o for o, _ in pairs)))
    assert turned == value
    if sum(new) <= sum(old):
        assert value <= 0


def test_a_head_measured_on_nothing_is_rejected() -> None:
    """No private sample, no judgement: an empty validation set must not wave heads through."""
    nothing = Evaluation(ArtifactId(bytes(32)), True, 0, 0, 0, ())
    assert judge(nothing, nothing, None, Canary(samples=1, accept=0, reject=1)) == -1
