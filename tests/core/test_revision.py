from dataclasses import fields, replace
from typing import Any

import pytest

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import outer_schema, update_schema
from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, DecisionId, NetworkId, RevisionId
from p2pd.core.revision import MAX_PLAN_SHARDS, Canary, DataSpec, Origin, Schedule
from p2pd.core.work import MergeRule, OuterRule, Schema, TensorSpec
from p2pd.errors import LocalError
from tests.core.builders import SETTING

SOUND = SETTING.revision


def schedule(**changes: Any) -> Schedule:
    return replace(SOUND.schedule, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lease_shards": 0}, "lease_shards must be at least 1"),
        ({"lease_shards": 9}, "at most max_lease_shards"),
        ({"max_lease_shards": 2**16 + 1}, "max_lease_shards"),
        ({"max_roster": 0}, "max_roster must be from 1 to 512"),
        ({"max_roster": 513}, "max_roster must be from 1 to 512"),
        ({"max_roster": 512, "max_lease_shards": 512}, "choose larger microshards"),
        ({"deadline_ms": 0}, "must be positive"),
        ({"check_limit_ms": 0}, "must be positive"),
        ({"settle_ms": -1}, "must be positive"),
        ({"end_heads": -1}, "must not be negative"),
        ({"end_epochs": -1}, "must not be negative"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(changes: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        schedule(**changes)


def test_i09_the_largest_plan_fits_into_a_decision() -> None:
    most = schedule(max_roster=512, max_lease_shards=MAX_PLAN_SHARDS // 512)
    assert most.max_roster * most.max_lease_shards == MAX_PLAN_SHARDS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lookahead": 2}, "lookahead must be 0 or 1"),
        ({"lookahead": -1}, "lookahead must be 0 or 1"),
        ({"reconcile": "average"}, "reconcile one of rebase, replace, root_ema"),
        ({"own_weight": 0}, "own_weight must be above 0 and below 1"),
        ({"own_weight": 1_000_000}, "own_weight must be above 0 and below 1"),
        (
            {"lookahead": 1, "max_roster": 512, "max_lease_shards": MAX_PLAN_SHARDS // 512},
            f"at most {MAX_PLAN_SHARDS // 3}",
        ),
    ],
)
def test_a_lookahead_that_cannot_work_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        schedule(**changes)


@pytest.mark.parametrize(
    "arguments",
    [
        ("stream", 10, 1),
        ("indexed", 0, 1),
        ("indexed", 10, 0),
        ("indexed", 10, 11),
        ("generated", 10, 1, "x" * 501),
    ],
)
def test_data_that_cannot_be_dealt_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="data"):
        DataSpec(*arguments)


def test_data_by_another_name_are_another_revision() -> None:
    kinds = [DataSpec("generated", 10, 1, name) for name in ("", "one", "two")]
    assert len({encode(kind) for kind in (*kinds, DataSpec("indexed", 10, 1))}) == 4


@pytest.mark.parametrize(
    ("samples", "shard", "sizes"),
    [(10, 5, [5, 5]), (11, 5, [5, 5, 1]), (1, 1, [1]), (9, 9, [9]), (10, 9, [9, 1])],
)
def test_microshards_hold_all_samples_and_only_the_last_is_short(
    samples: int, shard: int, sizes: list[int]
) -> None:
    data = DataSpec("indexed", samples, shard)
    assert [data.shard_size(n) for n in range(data.shards)] == sizes


@pytest.mark.parametrize("arguments", [(0, 1, 2), (1, 2, 2), (1, -1, 2), (1, 3, 2)])
def test_a_canary_without_a_gap_is_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="canary needs samples"):
        Canary(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [("median", 1, 0), ("mean", 0, 0), ("trimmed_mean", 1, -1), ("trimmed_mean", 1, 500_000)],
)
def test_a_merge_rule_that_cannot_work_is_refused(arguments: tuple[str, int, int]) -> None:
    with pytest.raises(ValueError, match=r"merge rule|clip|trim"):
        MergeRule(*arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mean", 1, 0), "mean has lr 1 and no momentum"),
        (("mean", 1_000_000, 9), "mean has lr 1 and no momentum"),
        (("adam", 1_000_000, 0), "'adam' is none of mean, sgd, nesterov"),
        (("sgd", 0, 0), "lr must be above 0 and at most 10"),
        (("sgd", 10_000_001, 0), "lr must be above 0 and at most 10"),
        (("sgd", 1, 1_000_000), "momentum must be at least 0 and below 1"),
        (("sgd", 1, -1), "momentum must be at least 0 and below 1"),
        (("nesterov", 700_000, 0), "nesterov needs a momentum above 0"),
    ],
)
def test_an_outer_optimizer_that_cannot_work_is_refused(
    arguments: tuple[str, int, int], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        OuterRule(*arguments)


def test_only_momentum_keeps_state() -> None:
    rules = [("mean", 1_000_000, 0), ("sgd", 700_000, 0), ("sgd", 1, 9), ("nesterov", 1, 9)]
    assert [OuterRule(*rule).keeps_state for rule in rules] == [False, False, True, True]


def test_each_kind_of_artifact_has_its_tensors_and_data_have_none() -> None:
    tensors = (TensorSpec("mean", "F32", (3,), True), TensorSpec("weight", "BF16", (4,), False))
    revision = replace(SOUND, schema=Schema(tensors), codec="int8")
    kinds = {kind: revision.schema_of(kind).tensors for kind in list(ArtifactKind)[:3]}
    for data in (ArtifactKind.SHARD, ArtifactKind.SHARD_SET):
        with pytest.raises(LocalError, match="no tensors"):
            revision.schema_of(data)
    assert kinds[ArtifactKind.HEAD] == tensors
    assert [tensor.name for tensor in kinds[ArtifactKind.UPDATE]] == [
        "mean",
        "weight",
        "weight/scale",
    ]
    assert kinds[ArtifactKind.OUTER] == (TensorSpec("weight", "F32", (4,), False),)


def test_tensor_names_are_sorted_and_unique() -> None:
    one, other = TensorSpec("a", "F32", (1,), False), TensorSpec("b", "F32", (1,), False)
    assert Schema((one, other)).id != Schema((one,)).id
    for wrong in ((other, one), (one, one)):
        with pytest.raises(ValueError, match="sorted and unique"):
            Schema(wrong)


@pytest.mark.parametrize(
    "changes",
    [{"name": ""}, {"study": "s" * 65}, {"experiment": ""}, {"seed": b"x"}, {"head": b"x"}],
    ids=lambda change: next(iter(change)),
)
def test_a_revision_with_a_wrong_name_or_id_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"characters|32 bytes"):
        replace(SOUND, **changes)


def test_everything_in_a_revision_is_in_its_id() -> None:
    changes: dict[str, Any] = {
        "network": NetworkId(b"n" * 32),
        "study": "other",
        "experiment": "other",
        "name": "other",
        "workload": replace(SOUND.workload, source=b"s" * 32),
        "schema": Schema(()),
        "data": DataSpec("indexed", 1000, 20),
        "schedule": schedule(settle_ms=5),
        "merge": MergeRule("trimmed_mean", 1, 1),
        "canary": replace(SOUND.canary, reject=200_000),
        "head": ArtifactId(b"h" * 32),
        "seed": b"s" * 32,
        "outer": OuterRule("nesterov", 700_000, 900_000),
        "codec": "int8",
        "head_codec": "int8",
        "origin": Origin(RevisionId(b"r" * 32), 7, DecisionId(b"d" * 32)),
    }
    assert changes.keys() == {field.name for field in fields(SOUND)}
    ids = {replace(SOUND, **{name: value}).id for name, value in changes.items()} | {SOUND.id}
    assert len(ids) == len(changes) + 1


def test_heads_are_as_merged_or_in_steps_that_are_certified_with_what_they_lose() -> None:
    with pytest.raises(ValueError, match="head codec 'int4' is none of f32, int8"):
        replace(SOUND, head_codec="int4")
    momentum = replace(SOUND, outer=OuterRule("nesterov", 700_000, 900_000))
    stepped = [replace(one, head_codec="int8") for one in (SOUND, momentum)]
    assert [one.state_parts for one in (SOUND, momentum, *stepped)] == [0, 1, 1, 2]
    for one in stepped:
        assert one.schema_of(ArtifactKind.STEP) == update_schema(one.schema, "int8")
        assert one.schema_of(ArtifactKind.OUTER) == outer_schema(one.schema, one.state_parts)


@pytest.mark.parametrize(
    "changes", [{"target": 2**60}, {"target_band": -1}, {"start_steps": -1}, {"start_steps": 2**50}]
)
def test_a_target_or_a_start_that_is_none_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"target must be|start_steps must be"):
        schedule(**changes)


def test_an_origin_is_a_decision_of_a_revision() -> None:
    for revision, height in ((b"r" * 31, 1), (b"r" * 32, -1)):
        with pytest.raises(ValueError, match="an origin is a decision of a revision"):
            Origin(RevisionId(revision), height, DecisionId(b"d" * 32))
    assert Origin(RevisionId(b"\x0a" * 32), 7, DecisionId(b"d" * 32)).text == (
        "height 7 of revision 0a0a0a0a0a"
    )
