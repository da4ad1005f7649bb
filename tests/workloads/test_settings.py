from dataclasses import dataclass, field

import pytest

from p2pd.errors import WorkloadError
from p2pd.workloads.settings import LEAST, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    lr: float = 0.1
    batch: int = field(default=8, metadata={LEAST: 1})
    seed: int = 0
    directory: str = "here"


def test_keys_left_out_have_defaults() -> None:
    assert parse(Config, "lab", {}) == Config()
    assert parse(Config, "lab", {"lr": 1, "seed": 5}) == Config(lr=1, seed=5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"bach": 4}, "lab has no config key 'bach': did you mean 'batch'"),
        ({"lr": 0}, "lr must be a positive number, got 0"),
        ({"lr": "fast"}, "lr must be a positive number, got 'fast'"),
        ({"lr": float("nan")}, "lr must be a positive number, got nan"),
        ({"batch": 0}, "batch must be a whole number of at least 1, got 0"),
        ({"batch": 2.5}, "batch must be a whole number of at least 1, got 2.5"),
        ({"seed": True}, "seed must be a whole number of at least 0, got True"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"directory": ""}, "directory must be a text that is not empty, got ''"),
        ({"directory": 3}, "directory must be a text that is not empty, got 3"),
    ],
)
def test_a_config_that_cannot_be_is_refused_by_key(config: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse(Config, "lab", config)
