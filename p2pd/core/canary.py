"""Does a merged head regress? Paired losses on a validator's own samples, less their noise. Integers only."""

from math import isqrt

from p2pd.core.revision import Canary
from p2pd.core.work import MILLION, Evaluation

NOISE_ERRORS = 3
"""Standard errors of the mean difference that are put down to noise."""
LOSS_FLOOR = 10_000
"""Millionths: below a mean loss of 0.01 a relative bound would measure noise."""
BEST_SLACK = 2
"""Against the best recent head, which is the luckiest of many, the bounds are this much wider."""


def regression(new: Evaluation, old: Evaluation) -> int:
    """How much worse new is than old beyond noise, in millionths of old's mean loss; 0 or less is no regression."""
    pairs = list(zip(new.private, old.private, strict=True))
    count = len(pairs)
    differences = [after - before for after, before in pairs]
    mean = sum(differences) // count
    variance = sum((difference - mean) ** 2 for difference in differences) // max(1, count - 1)
    noise = NOISE_ERRORS * isqrt(variance // count)
    scale = max(LOSS_FLOOR, sum(before for _, before in pairs) // count)
    return (mean - noise) * MILLION // scale


def reaches(metric: int, target: int, *, higher_is_better: bool) -> int:
    """By how much, millionths; negative where it does not."""
    return metric - target if higher_is_better else target - metric


def judge(new: Evaluation, base: Evaluation, best: Evaluation | None, canary: Canary) -> int:
    """1 accept, 0 unsure, -1 reject: a head that cannot be evaluated is rejected."""
    if not new.finite or not new.private:
        return -1
    worst = regression(new, base) if base.private else 0
    if best is not None and best.private:
        worst = max(worst, regression(new, best) // BEST_SLACK)
    if worst <= canary.accept:
        return 1
    return -1 if worst > canary.reject else 0
