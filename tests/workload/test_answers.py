import math
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.work import COUNT_MAX, Schema
from p2pd.errors import WorkloadError
from p2pd.workload.answers import (
    data_of,
    described,
    evaluated_of,
    figures_of,
    losses_of,
    schema_of,
    trained_of,
)
from p2pd.workload.contract import Evaluated, Trained
from p2pd.workload.pipelines import Indexed

NUMBERS: tuple[Any, ...] = (0, 1, 16, 17, -5, 2**62, 2**63, 2**70, 1.0, float("nan"), float("inf"))
OTHERS: tuple[Any, ...] = (None, "a", b"1", "1", [], [1, 2], True, 1j, 10**400)
ANYTHING = st.sampled_from(NUMBERS + OTHERS)


def trained(samples: object = 16, steps: object = 3, loss: object = 0.5) -> Trained:
    return Trained(cast("int", samples), cast("int", steps), cast("float", loss))


def evaluated(metric: object = 0.5, loss: object = 0.5, samples: object = 8) -> Evaluated:
    return Evaluated(cast("float", metric), cast("float", loss), cast("int", samples))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, r"^train returned nothing: return a Trained of p2pd\.workload\.contract$"),
        (0.5, r"^train returned an object of type float: return a Trained"),
        (trained(samples=17), r"^train returned 17 samples of a lease of 16: return how many"),
        (
            trained(samples=16.0),
            r"^train returned samples of type float: it must be a whole number",
        ),
        (trained(steps=0), r"^train returned 0 steps for 16 samples: return how many optimizer"),
        (trained(steps=-5), r"^train returned -5 steps for 16 samples"),
        (trained(steps=2**63), r"^train returned 9223372036854775808 steps for 16 samples"),
        (trained(steps=17), r"return how many optimizer steps it made, at least 1 and at most one"),
        (trained(steps="a"), r"^train returned steps of type str: it must be a whole number$"),
        (trained(loss="0.5"), r"^train returned a loss of type str: it must be one number$"),
        (trained(loss=[]), r"^train returned a loss of type list"),
        (trained(loss=float("nan")), r"^the mean loss of the lease is nan: lower the learning"),
    ],
)
def test_what_train_may_not_return_is_said_to_its_author(answer: object, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        trained_of(answer, 16)


@given(samples=ANYTHING, steps=ANYTHING, loss=ANYTHING)
def test_whatever_train_returns_is_refused_or_fits_a_lease(
    samples: object, steps: object, loss: object
) -> None:
    with suppress(WorkloadError):
        found = trained_of(trained(samples, steps, loss), 16)
        assert 0 < found.steps <= found.samples <= 16
        assert type(found.samples) is type(found.steps) is int
        assert type(found.loss) is float


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, r"^evaluate returned nothing: return an Evaluated"),
        (evaluated(samples=-3), r"^evaluate returned -3 samples: return on how many it evaluated"),
        (evaluated(samples=0), r"^evaluate returned 0 samples"),
        (evaluated(samples=2**70), r"^evaluate returned 1180591620717411303424 samples"),
        (evaluated(samples=8.0), r"^evaluate returned samples of type float"),
        (evaluated(metric=None), r"^evaluate returned a metric of type NoneType"),
        (evaluated(loss=10**400), r"^evaluate returned a loss of type int: it must be one number"),
    ],
)
def test_what_evaluate_may_not_return_is_said_to_its_author(answer: object, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        evaluated_of(answer)


@given(metric=ANYTHING, loss=ANYTHING, samples=ANYTHING)
def test_whatever_evaluate_returns_is_refused_or_has_numbers(
    metric: object, loss: object, samples: object
) -> None:
    with suppress(WorkloadError):
        found = evaluated_of(evaluated(metric, loss, samples))
        assert 0 < found.samples <= COUNT_MAX
        assert type(found.metric) is type(found.loss) is float


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([1.0], r"^sample_losses returned 1 loss for 3 samples: return one for each$"),
        ([], r"^sample_losses returned 0 losses for 3 samples: return one for each$"),
        ([1.0] * 9, r"^sample_losses returned more than 3 losses for 3 samples"),
        (None, r"^sample_losses returned nothing: return a list of one loss for each sample$"),
        (["x"] * 3, r"^sample_losses returned a loss of type str: it must be one number$"),
    ],
)
def test_one_loss_a_sample_is_wanted_no_more_and_no_less(answer: object, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        losses_of(answer, 3)


def test_a_generator_of_losses_is_as_good_as_a_list() -> None:
    assert losses_of((loss for loss in (1, 2.5)), 2) == [1.0, 2.5]


def workload(**changes: object) -> Any:
    said: dict[str, object] = {
        "train_samples": 64,
        "validation_samples": 8,
        "metric": "accuracy",
        "higher_is_better": True,
        "pipeline": Indexed("some data", Path("/data")),
        "schema": lambda: Schema(()),
    }
    return SimpleNamespace(**{**said, **changes})


def test_a_workload_describes_itself() -> None:
    assert described(workload()) == (64, 8, "accuracy", True)
    assert data_of(workload()) == ("indexed", "some data", Path("/data"))
    assert schema_of(workload()) == Schema(())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train_samples": 0}, "^train_samples of the workload is 0: give it samples"),
        ({"train_samples": 64.0}, "^train_samples of the workload of type float: it must be"),
        ({"validation_samples": -1}, "^validation_samples of the workload is -1"),
        ({"metric": None}, "^metric of the workload is nothing: it must be of type str"),
        ({"higher_is_better": 1}, "^higher_is_better of the workload is an object of type int"),
        ({"pipeline": 7}, r"^pipeline of the workload is an object of type int: it must be a p2pd"),
        ({"pipeline": Indexed(cast("str", 7))}, r"^pipeline\.descriptor\(\) of the workload"),
        ({"pipeline": Indexed("", cast("Path", "/d"))}, r"^pipeline\.local_root\(\) of the"),
        ({"schema": list}, r"^schema\(\) of the workload is an object of type list"),
    ],
)
def test_what_describes_no_workload_is_named(changes: dict[str, object], said: str) -> None:
    def describe() -> None:
        one = workload(**changes)
        described(one)
        data_of(one)
        schema_of(one)

    with pytest.raises(WorkloadError, match=said):
        describe()


def test_figures_are_few_named_once_and_finite() -> None:
    assert figures_of({"f1": 0.5}, {"norm": 2, "lost": math.nan}) == {"f1": 0.5, "norm": 2.0}
    for others, probes, said in (
        ({"f1": 0.5}, {"f1": 0.5}, "'f1' is a metric and a probe: rename one"),
        ({}, {str(n): 0.0 for n in range(9)}, "9 further metrics and probes: there are at most 8"),
        ({}, {"ñ" * 17: 0.0}, "names of 1 to 32 bytes"),
        ({}, {"\ud800": 0.0}, "that can be printed"),
        ({}, [("f1", 0.5)], "probes returned an answer of type list: it must be a dict by name"),
        ({}, {"f1": "good"}, "for f1 of type str: it must be one number"),
    ):
        with pytest.raises(WorkloadError, match=said):
            figures_of(others, probes)
