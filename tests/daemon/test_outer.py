"""What settings of the outer optimizer leave out, and what is said against those that are known not to work."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from p2pd.core.revision import Revision
from p2pd.core.work import MILLION, MergeRule, OuterRule
from p2pd.daemon.outer import (
    OuterSettings,
    doubts,
    heads_for,
    name_of,
    outer_rule,
    swings_from,
)
from p2pd.tensors.outer import optimizer_of
from tests.core.builders import SETTING


@pytest.mark.parametrize(
    ("settings", "end_heads", "rule"),
    [
        (OuterSettings(), 0, ("mean", 1.0, 0.0)),
        (OuterSettings(rule="sgd"), 0, ("sgd", 1.0, 0.0)),
        (OuterSettings(rule="nesterov"), 0, ("nesterov", 0.7, 0.9)),
        (OuterSettings(rule="nesterov"), 40, ("nesterov", 0.7, 0.9)),
        (OuterSettings(rule="nesterov"), 39, ("nesterov", 0.7, 0.5)),
        (OuterSettings(rule="nesterov", momentum=0.9), 10, ("nesterov", 0.7, 0.9)),
        (OuterSettings(rule="nesterov", lr=0.4), 10, ("nesterov", 0.4, 0.5)),
    ],
)
def test_what_is_not_set_is_as_the_literature_has_it(
    settings: OuterSettings, end_heads: int, rule: tuple[str, float, float]
) -> None:
    name, lr, momentum = rule
    wanted = OuterRule(name, round(lr * MILLION), round(momentum * MILLION))
    assert outer_rule(settings, end_heads) == wanted


@pytest.mark.parametrize(
    "settings",
    [
        OuterSettings(lr=0.7),
        OuterSettings(momentum=0.9),
        OuterSettings(rule="adam"),
        OuterSettings(rule="nesterov", momentum=0.0),
        OuterSettings(rule="nesterov", lr=0.0),
        OuterSettings(rule="sgd", momentum=1.0),
        OuterSettings(rule="sgd", lr=-1.0),
        OuterSettings(rule="sgd", lr=11.0),
    ],
)
def test_nonsense_is_refused(settings: OuterSettings) -> None:
    with pytest.raises(ValueError, match="outer"):
        outer_rule(settings, 0)


def at_optimum(rule: OuterRule, heads: int = 200) -> list[float]:
    """How far each head is from the optimum, which every window finds whatever it starts from."""
    optimizer, head, velocity = optimizer_of(rule), np.ones(1), np.zeros(1)
    assert optimizer is not None
    found = []
    for _ in range(heads):
        step = optimizer.step(head, -head, velocity, "F64")
        head, velocity = step.head, step.velocity
        found.append(abs(float(head[0])))
    return found


@pytest.mark.parametrize("name", ["sgd", "nesterov"])
@pytest.mark.parametrize("momentum", [0.1, 0.5, 0.9, 0.99])
def test_heads_swing_from_the_rate_that_is_said_on_and_not_below(
    name: str, momentum: float
) -> None:
    rule = OuterRule(name, MILLION, round(momentum * MILLION))
    edge = swings_from(rule)
    near, beyond = (
        at_optimum(replace(rule, lr=round(edge * share * MILLION)), 2000) for share in (0.98, 1.02)
    )
    assert max(near[-50:]) < 1e-3
    assert min(map(max, pairwise(beyond[-50:]))) > 1e3


def revision(outer: OuterRule, end_heads: int = 0, merge: str = "mean") -> Revision:
    schedule = replace(SETTING.revision.schedule, end_heads=end_heads)
    rule = MergeRule(merge, 2 * MILLION, 100_000)
    return replace(SETTING.revision, schedule=schedule, merge=rule, outer=outer)


@pytest.mark.parametrize(
    ("name", "lr", "momentum", "heads", "words"),
    [
        ("mean", 1.0, 0.0, 3, []),
        ("nesterov", 0.7, 0.9, 0, []),
        ("nesterov", 1.0, 0.9, 40, []),
        ("nesterov", 0.7, 0.5, 8, []),
        ("sgd", 1.5, 0.0, 3, []),
        ("sgd", 1.6, 0.0, 3, ["outer.lr 1.6 with momentum 0 is beyond 1.50"]),
        ("nesterov", 1.1, 0.9, 0, ["outer.lr 1.1 with momentum 0.9 is beyond 1.02"]),
        ("nesterov", 0.7, 0.9, 39, ["outer.momentum 0.9 takes some 40 heads to pay"]),
        ("nesterov", 1.3, 0.8, 5, ["is beyond 1.04", "takes some 20 heads"]),
    ],
)
def test_settings_that_are_known_not_to_work_are_doubted(
    name: str, lr: float, momentum: float, heads: int, words: list[str]
) -> None:
    rule = OuterRule(name, round(lr * MILLION), round(momentum * MILLION))
    found = list(doubts(revision(rule, heads)))
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_no_default_is_doubted() -> None:
    for rule in ("mean", "sgd", "nesterov"):
        for heads in (0, 8, 39, 40, 1000):
            settings = OuterSettings(rule=rule)
            assert list(doubts(revision(outer_rule(settings, heads), heads))) == []
    assert [heads_for(momentum) for momentum in (0.0, 0.5, 0.9)] == [4, 8, 40]


def test_rules_have_the_names_of_the_literature() -> None:
    mean = outer_rule(OuterSettings(), 0)
    assert name_of(revision(mean)).startswith("FedAvg: mean of the updates, weighted by samples")
    assert name_of(revision(mean, merge="norm_clipped_mean")).startswith(
        "FedAvg with clipped norms"
    )
    assert name_of(revision(mean, merge="trimmed_mean")) == "trimmed mean of the updates"
    diloco = outer_rule(OuterSettings(rule="nesterov"), 0)
    assert name_of(revision(diloco)) == "DiLoCo: Nesterov, lr 0.7, momentum 0.9"
    assert name_of(revision(outer_rule(OuterSettings(rule="sgd"), 0))).startswith("outer SGD")
