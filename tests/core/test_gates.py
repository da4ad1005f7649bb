from dataclasses import replace
from typing import Any

import pytest

from p2pd.core.gates import gate, largest_artifact_bytes, lease_behind
from p2pd.core.ids import ArtifactId, DecisionId, NetworkId, TermId
from p2pd.core.messages import Candidate, Release, Update
from p2pd.core.voting.events import Defence
from p2pd.core.work import DTYPE_BYTES, FULL, Schema, TensorSpec, Verdict
from p2pd.errors import RemoteError
from tests.core.builders import SETTING, STRANGER, TRAINERS, running, update

DEALT = running(trainers=2)
SCOPE = SETTING.scope(2)
SCHEMA = SETTING.revision.schema
LARGEST = largest_artifact_bytes(SCHEMA)


def verdict(**changes: Any) -> Verdict:
    return gate(SETTING, update(DEALT, TRAINERS[0], **changes), DEALT)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, Verdict.ACCEPTED),
        ({"samples": 1}, Verdict.ACCEPTED),
        ({"samples": 21}, Verdict.LEASE),
        ({"samples": 5, "steps": 6}, Verdict.LEASE),
        ({"samples": 5, "steps": 5}, Verdict.ACCEPTED),
        ({"base": ArtifactId(bytes(32))}, Verdict.BASE),
        ({"size_bytes": LARGEST}, Verdict.ACCEPTED),
        ({"size_bytes": LARGEST + 1}, Verdict.SIZE),
        ({"samples": 21, "base": ArtifactId(bytes(32))}, Verdict.LEASE),
    ],
    ids=str,
)
def test_i07_the_hard_gates_decide_from_the_announcement(
    changes: dict[str, Any], found: Verdict
) -> None:
    assert verdict(**changes) is found


def test_i03_an_update_without_a_lease_in_this_place_is_refused() -> None:
    good = update(DEALT, TRAINERS[0])
    for scope in (
        replace(SCOPE, height=3),
        replace(SCOPE, term=TermId(bytes(32))),
        replace(SCOPE, network=NetworkId(bytes(32))),
    ):
        with pytest.raises(RemoteError, match="update for height"):
            lease_behind(SETTING, replace(good, scope=scope), DEALT)
    with pytest.raises(RemoteError, match="another plan"):
        lease_behind(SETTING, update(DEALT, TRAINERS[0], plan=DecisionId(bytes(32))), DEALT)
    with pytest.raises(RemoteError, match="holds no lease"):
        lease_behind(SETTING, update(DEALT, STRANGER), DEALT)


def test_i08_an_artifact_may_be_as_large_as_its_schema_and_a_header() -> None:
    tensors = [
        TensorSpec(f"t{n}", dtype, (7, 1000, 3), False) for n, dtype in enumerate(DTYPE_BYTES)
    ]
    data = sum(21_000 * size for size in DTYPE_BYTES.values())
    largest = largest_artifact_bytes(Schema(tuple(tensors)))
    assert data < largest < data + 1024 + 600 * len(tensors)
    assert largest_artifact_bytes(Schema(())) == 1024
    assert largest_artifact_bytes(Schema((TensorSpec("scalar", "F32", (), False),))) > 1024


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": 0},
        {"samples": -1},
        {"samples": 2**40 + 1},
        {"steps": 0},
        {"steps": 2**40 + 1},
        {"size_bytes": 0},
        {"artifact": b"short"},
    ],
    ids=str,
)
def test_an_update_of_nothing_cannot_be_said(changes: dict[str, Any]) -> None:
    sound = Update(DEALT.id, DEALT.head, ArtifactId(bytes(32)), 1, 1, 1)
    with pytest.raises(ValueError, match="an update"):
        replace(sound, **changes)


def test_other_messages_have_their_bounds() -> None:
    with pytest.raises(ValueError, match="at most 500 characters"):
        Release(DEALT.id, "x" * 501)
    for r in (0, 128, FULL - 1, FULL + 1):
        with pytest.raises(ValueError, match="r must be 1024"):
            Candidate(update(DEALT, TRAINERS[0]), Verdict.ACCEPTED, r)


@pytest.mark.parametrize(
    ("dtype", "shape", "words"),
    [("F8", (2,), "unknown type 'F8'"), ("F32", (2, -1), "negative side")],
)
def test_a_schema_of_what_no_tensor_can_be_is_refused(
    dtype: str, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Schema((TensorSpec("t", dtype, shape, False),))


def test_i07_without_its_defence_a_claim_beyond_the_lease_passes() -> None:
    lax = replace(SETTING, defences_off=frozenset({Defence.LEASE}))
    greedy = update(DEALT, TRAINERS[0], samples=21)
    assert (gate(SETTING, greedy, DEALT), gate(lax, greedy, DEALT)) == (
        Verdict.LEASE,
        Verdict.ACCEPTED,
    )


def test_i03_without_its_defence_an_update_of_another_window_passes() -> None:
    lax = replace(SETTING, defences_off=frozenset({Defence.REPLAY}))
    good = update(DEALT, TRAINERS[0], plan=DecisionId(bytes(32)), base=ArtifactId(bytes(32)))
    old = replace(good, scope=replace(SCOPE, height=1))
    with pytest.raises(RemoteError):
        gate(SETTING, old, DEALT)
    assert gate(lax, old, DEALT) is Verdict.ACCEPTED
