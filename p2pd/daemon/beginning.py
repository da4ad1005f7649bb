"""What a revision may begin with besides its workload: given weights, or the head and the settings of another one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from p2pd.core.ids import ArtifactId, short
from p2pd.core.revision import Origin, Revision
from p2pd.core.work import MILLION, Evaluation, OuterRule
from p2pd.errors import RemoteError, UsageError, WorkloadError
from p2pd.tensors.foreign import entries_of


@dataclass(frozen=True, slots=True)
class Beginning:
    weights: Path | None = None
    """A safetensors file; None: as the workload builds itself."""
    origin: Origin | None = None
    """Whose head the weights are."""
    head: ArtifactId | None = None
    """What they must become, where they have an origin."""


AS_BUILT = Beginning()


@contextmanager
def _of(path: Path) -> Iterator[None]:
    try:
        yield
    except RemoteError as error:
        raise UsageError(f"{path}: {error}") from error


def check_beginning(beginning: Beginning) -> None:
    """What is seen of a file before the workload is built. Raises UsageError, StoreError."""
    if beginning.weights is not None:
        with _of(beginning.weights):
            entries_of(beginning.weights)


def check_head(beginning: Beginning, head: ArtifactId, evaluation: Evaluation) -> None:
    """
    Raises:
        UsageError: it is not the head of its origin: the model has changed.
        WorkloadError: it is worth nothing to the workload.
    """
    if beginning.head is not None and head != beginning.head:
        raise UsageError(
            f"the workload takes head {short(beginning.head)} for tensors of other kinds, and makes it "
            f"{short(head)}: export it, and start from it by --weights"
        )
    if not evaluation.finite:
        raise WorkloadError("the loss or the metric of the given weights is not finite")


def settings_of(revision: Revision) -> dict[str, Mapping[str, object]]:
    """The settings by which a revision was published, as a file would give them; but for its name and its target.

    A target that was reached would end the next run as it begins.
    """
    schedule, merge, outer, canary = (
        revision.schedule, revision.merge, revision.outer, revision.canary,
    )  # fmt: skip
    return {
        "revision": {
            "study": revision.study,
            "experiment": revision.experiment,
            "workload": revision.workload.module,
            "config": revision.workload.config,
        },
        "schedule": {
            "shard_samples": revision.data.shard_samples,
            "lease_shards": schedule.lease_shards,
            "max_lease_shards": schedule.max_lease_shards,
            "max_roster": schedule.max_roster,
            "deadline_s": schedule.deadline_ms / 1000,
            "settle_s": schedule.settle_ms / 1000,
            "check_limit_s": schedule.check_limit_ms / 1000,
            "end_heads": schedule.end_heads,
            "end_epochs": schedule.end_epochs,
            "lookahead": schedule.lookahead,
            "reconcile": schedule.reconcile,
            "own_weight": schedule.own_weight / MILLION,
            "target_band": schedule.target_band / MILLION,
            "start_steps": schedule.start_steps,
        },
        "update": {"codec": revision.codec, "head_codec": revision.head_codec},
        "merge": {
            "rule": merge.name,
            "clip": merge.clip / MILLION,
            "trim": merge.trim / MILLION,
        },
        "outer": _outer(outer),
        "canary": {
            "samples": canary.samples,
            "accept": canary.accept / MILLION,
            "reject": canary.reject / MILLION,
        },
    }


def _outer(outer: OuterRule) -> Mapping[str, object]:
    """Of the mean its name alone: whoever goes on by another rule takes the defaults of that."""
    if outer.name == "mean":
        return {"rule": outer.name}
    return {
        "rule": outer.name,
        "lr": outer.lr / MILLION,
        "momentum": outer.momentum / MILLION,
    }
