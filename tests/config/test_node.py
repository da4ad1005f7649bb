import pytest

from p2pd.config.loading import Override, load
from p2pd.config.node import (
    NODE_TABLES,
    NetworkSettings,
    NodeSettings,
    StoreSettings,
    WorkerLimits,
)
from p2pd.config.schema import keys_of, meanings_of
from p2pd.errors import UsageError

REQUIRED = (
    Override("--role", "node", "role", "trainer"),
    Override("--data-dir", "node", "data_dir", "data"),
    Override("--genesis", "network", "genesis", "genesis"),
)


def refused(table: str, key: str, value: object) -> str:
    with pytest.raises(UsageError) as caught:
        load(None, NODE_TABLES, (*REQUIRED, Override("--it", table, key, value)))
    return str(caught.value)


def test_three_settings_are_enough() -> None:
    settings = load(None, NODE_TABLES, REQUIRED)
    assert isinstance(settings["node"], NodeSettings)
    assert isinstance(settings["network"], NetworkSettings)
    assert settings["store"] == StoreSettings()
    assert settings["worker"] == WorkerLimits()


@pytest.mark.parametrize("kind", NODE_TABLES.values())
def test_each_key_is_explained(kind: type) -> None:
    assert list(meanings_of(kind)) == list(keys_of(kind))


@pytest.mark.parametrize(
    ("table", "key", "value", "why"),
    [
        ("node", "role", "", "must not be empty"),
        ("node", "name", "a b", "at most 64 letters"),
        ("node", "name", "x" * 65, "at most 64 letters"),
        ("node", "name", "a\nb", "at most 64 letters"),
        ("log", "level", "loud", "must be one of debug, info, warning, error, got 'loud'"),
        ("log", "format", "xml", "must be one of text, json, got 'xml'"),
        ("log", "file_bytes", 0, "must be at least 65536, got 0"),
        ("log", "repeat_s", 0, "must be at least 1, got 0"),
        ("log", "stall_s", 0.0, "must be at least 0.1, got 0"),
        ("network", "seeds", ("host",), "address 'host' is not host:port"),
        ("network", "seeds", ("h:1", "abc@h:1"), "peer id 'abc' must have 64 hex digits, got 3"),
        ("store", "quota_bytes", -1, "must not be negative, got -1"),
        ("store", "reserve_bytes", -1, "must not be negative, got -1"),
        ("worker", "threads", 0, "must be positive, got 0"),
        ("worker", "build_s", 0, "must be positive, got 0"),
        ("worker", "train_s", -1.5, "must not be negative, got -1.5"),
        ("worker", "evaluate_s", 0.0, "must be positive, got 0"),
        ("worker", "memory_bytes", -1, "must not be negative, got -1"),
        (
            "trainer",
            "devices",
            "gpu",
            "must be \"auto\", a list, or a number of processes, got 'gpu'",
        ),
        ("trainer", "devices", 0, "must be 1 to 1024, got 0"),
        ("trainer", "devices", (), "must not be empty"),
        ("trainer", "devices", True, "must be text or a whole number or a list, each item text"),
        ("trainer", "strategy", "fsdp", "must be one of auto, single, multi, ddp, got 'fsdp'"),
        ("trainer", "elsewhere", 1, "needs listen: the address that they come to"),
        ("trainer", "listen", "127.0.0.1:0", "needs elsewhere: how many workers come there"),
        ("trainer", "elsewhere", -1, "must be 0 to 1024, got -1"),
    ],
)
def test_an_impossible_value_is_refused_by_its_key(
    table: str, key: str, value: object, why: str
) -> None:
    said = refused(table, key, value)
    assert said.startswith(f"--it: {table}.{key}: ")
    assert why in said


def test_zero_means_no_limit_where_that_makes_sense() -> None:
    assert StoreSettings(quota_bytes=0, reserve_bytes=0).quota_bytes == 0
    assert WorkerLimits(memory_bytes=0).memory_bytes == 0
