"""How a cohort becomes the next head: what settings leave out, and which of them are known to work.

Learning rates and momenta are factors. Sources: McMahan et al., arXiv 1602.05629 (FedAvg); Douillard et al.,
arXiv 2311.08105 (DiLoCo: Nesterov, 0.7 and 0.9, hundreds of steps a window). What is called stable was measured:
docs/low-communication.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from p2pd.core.revision import Revision
from p2pd.core.work import MILLION, OuterRule

LR = {"mean": 1.0, "sgd": 1.0, "nesterov": 0.7}
MOMENTUM = {"mean": 0.0, "sgd": 0.0, "nesterov": 0.9}
MOMENTUM_IN_FEW = 0.5
"""Of nesterov, where a run is to end before a momentum of 0.9 has paid."""
HEADS_FOR_MOMENTUM = 4.0
"""A momentum m takes so many times 1 / (1 - m) heads to pay: 40 of 0.9, 8 of 0.5."""
STABLE_SHARE = 0.75
"""Of the learning rate from which on heads swing ever wider."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OuterSettings:
    rule: str = "mean"
    """mean: the merged values are the head (FedAvg). sgd, nesterov: the head moves by the cohort's mean step, as by a
    gradient; nesterov is DiLoCo."""
    lr: float | None = None
    """Of sgd and nesterov. If it is not set: 1 for sgd, 0.7 for nesterov."""
    momentum: float | None = None
    """Of sgd and nesterov, below 1. The velocity is certified with each head. If it is not set: 0 for sgd; for nesterov
    0.9, or 0.5 where schedule.end_heads is below 40."""


BY_MEAN = OuterSettings()


def outer_rule(settings: OuterSettings, end_heads: int) -> OuterRule:
    """end_heads is 0 for a run without end.

    Raises:
        ValueError: no such rule, or it has no such lr or momentum.
    """
    lr, momentum = settings.lr, settings.momentum
    if lr is None:
        lr = LR.get(settings.rule, 1.0)
    if momentum is None:
        momentum = MOMENTUM.get(settings.rule, 0.0)
        if settings.rule == "nesterov" and 0 < end_heads < heads_for(momentum):
            momentum = MOMENTUM_IN_FEW
    return OuterRule(settings.rule, round(lr * MILLION), round(momentum * MILLION))


def heads_for(momentum: float) -> int:
    """In which a momentum pays."""
    return round(HEADS_FOR_MOMENTUM / (1.0 - momentum))


def swings_from(rule: OuterRule) -> float:
    """The learning rate from which on heads swing ever wider, where each window trains to its own optimum.

    There the cohort's step is all the way back to the optimum, and the eigenvalues of (head, velocity) must lie within
    the unit circle.
    """
    momentum = rule.momentum / MILLION
    if rule.name == "nesterov":
        return 2.0 * (1.0 + momentum) / (1.0 + 2.0 * momentum)
    return 2.0 * (1.0 + momentum)


def name_of(revision: Revision) -> str:
    """What the literature calls it, with its settings."""
    outer = revision.outer
    lr, momentum = outer.lr / MILLION, outer.momentum / MILLION
    if outer.name == "mean":
        rule = "mean of the updates, weighted by samples"
        plain = {
            "mean": f"FedAvg: {rule}",
            "norm_clipped_mean": f"FedAvg with clipped norms: {rule}",
        }
        return plain.get(revision.merge.name, "trimmed mean of the updates")
    settings = f"lr {lr:g}, momentum {momentum:g}"
    return f"DiLoCo: Nesterov, {settings}" if outer.name == "nesterov" else f"outer SGD: {settings}"


def doubts(revision: Revision) -> Iterator[str]:
    """What is known of these settings that speaks against them."""
    outer, heads = revision.outer, revision.schedule.end_heads
    if outer.name == "mean":
        return
    lr, momentum = outer.lr / MILLION, outer.momentum / MILLION
    most = STABLE_SHARE * swings_from(outer)
    if lr > most:
        yield (
            f"outer.lr {lr:g} with momentum {momentum:g} is beyond {most:.2f}, up to which heads were found not to"
            " swing: see docs/low-communication.md"
        )
    if momentum and 0 < heads < heads_for(momentum):
        yield (
            f"outer.momentum {momentum:g} takes some {heads_for(momentum)} heads to pay, and the run ends after"
            f" {heads}: a smaller one, or outer.rule=mean"
        )
