"""Revisions in words, and what publishing one says of its cost."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from math import prod

from p2pd.cli.origin import said_of
from p2pd.config.loading import Override
from p2pd.config.schema import keys_of
from p2pd.core.revision import Origin, Revision
from p2pd.core.wording import counted
from p2pd.core.work import MILLION
from p2pd.daemon.outer import name_of
from p2pd.daemon.publish import PUBLISH_TABLES, Published
from p2pd.errors import UsageError


def overrides_of(options: Mapping[str, str | None], settings: list[str]) -> list[Override]:
    """Options of the table [revision], and TABLE.KEY=VALUE settings of all tables.

    Raises:
        UsageError: a setting is not written so, or names no key.
    """
    given = [
        Override(f"--{key}", "revision", key, value)
        for key, value in options.items()
        if value is not None
    ]
    return [*given, *(_setting(text) for text in settings)]


def _setting(text: str) -> Override:
    place, separator, value = text.partition("=")
    table, _, key = place.partition(".")
    if not separator:
        raise UsageError(f"--set {text!r} must be TABLE.KEY=VALUE")
    if table not in PUBLISH_TABLES or key not in keys_of(PUBLISH_TABLES[table]):
        known = [f"{name}.{key}" for name, kind in PUBLISH_TABLES.items() for key in keys_of(kind)]
        close = get_close_matches(place, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise UsageError(f"--set {text!r}: there is no setting {place}: {hint}")
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = value
    return Override(f"--set {place}", table, key, parsed)


def revision_json(revision: Revision) -> dict[str, object]:
    return {
        "revision": revision.id.hex(),
        "study": revision.study,
        "experiment": revision.experiment,
        "name": revision.name,
        "workload": revision.workload.module,
        "config": json.loads(revision.workload.config),
        "source": revision.workload.source.hex(),
        "metric": revision.workload.metric,
        "data": revision.data.kind,
        "data_descriptor": revision.data.descriptor,
        "samples": revision.data.samples,
        "shard_samples": revision.data.shard_samples,
        "parameters": sum(prod(t.shape) for t in revision.schema.tensors if not t.buffer),
        "max_roster": revision.schedule.max_roster,
        "deadline_s": revision.schedule.deadline_ms / 1000,
        "codec": revision.codec,
        "head_codec": revision.head_codec,
        "merge": revision.merge.name,
        "outer": revision.outer.name,
        "outer_lr": revision.outer.lr / MILLION,
        "outer_momentum": revision.outer.momentum / MILLION,
        "head": revision.head.hex(),
        "start_steps": revision.schedule.start_steps,
        "origin": _origin_json(revision.origin),
    }


def _origin_json(origin: Origin | None) -> dict[str, object] | None:
    if origin is None:
        return None
    return {
        "revision": origin.revision.hex(),
        "height": origin.height,
        "decision": origin.decision.hex(),
    }


def published_json(published: Published) -> dict[str, object]:
    evaluation = published.evaluation
    return {
        **revision_json(published.signed.revision),
        "record_file": str(published.record_file),
        "head_file": str(published.head_file),
        "update_bytes": published.update_bytes,
        "window_bytes": published.window_bytes,
        "head_bytes": published.head.size_bytes,
        "outer_bytes": published.outer_bytes,
        "step_bytes": published.step_bytes,
        "head_metric": None if evaluation is None else evaluation.metric / MILLION,
        "head_loss": None if evaluation is None else evaluation.loss / MILLION,
    }


def cost_lines(published: Published) -> list[str]:
    """What was written, and what each window of it costs."""
    revision = published.signed.revision
    schedule = revision.schedule
    deadline_s = schedule.deadline_ms / 1000
    rate = published.window_bytes / deadline_s
    state = f", and {size(published.outer_bytes)} of outer state" if published.outer_bytes else ""
    step = ""
    if revision.head_codec != "f32":
        step = f", or its step in {revision.head_codec}, {size(published.step_bytes)}"
    return [
        f"revision   {revision.study} / {revision.experiment} / {revision.name}",
        f"id         {revision.id.hex()}",
        f"record     {published.record_file}",
        f"head       {published.head_file}",
        *_beginning_lines(published),
        f"workload   {revision.workload.module}, source {revision.workload.source.hex()}",
        f"data       {revision.data.kind}, {counted(revision.data.samples, 'sample')} in "
        f"{counted(revision.data.shards, 'microshard')}{_named(revision.data.descriptor)}",
        f"merging    {name_of(revision)}",
        f"trainer    per height sends one update, {size(published.update_bytes)} in {revision.codec}, "
        f"and fetches the new head, {size(published.head.size_bytes)}{step}",
        f"validator  per height fetches every update: at most {size(published.window_bytes)}, from "
        f"{counted(schedule.max_roster, 'trainer')} (schedule.max_roster);",
        f"           {size(round(rate))}/s if a height takes {deadline_s:g} s (schedule.deadline_s), "
        "more if it is decided sooner",
        f"newcomer   fetches one head, {size(published.head.size_bytes)}{state}, before it can validate",
    ]


def _beginning_lines(published: Published) -> list[str]:
    """Only where it begins with something that the workload did not make itself."""
    revision, evaluation = published.signed.revision, published.evaluation
    lines = []
    if revision.origin is not None:
        lines.append(f"begins     from {said_of(revision.origin)}")
    if evaluation is not None:
        lines.append(
            f"begins     with {revision.workload.metric} {evaluation.metric / MILLION:.4f}, "
            f"loss {evaluation.loss / MILLION:.4f}, as measured here"
        )
    if revision.schedule.start_steps:
        lines.append(f"begins     with schedulers at step {revision.schedule.start_steps}")
    return lines


def _named(descriptor: str) -> str:
    return f": {descriptor}" if descriptor else ""


def size(count: int) -> str:
    """Bytes for people, in powers of ten."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
