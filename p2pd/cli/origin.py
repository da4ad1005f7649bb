"""A revision that goes on from the head of another one: how it is begun, and how anyone checks it."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from p2pd.cli.inputs import read_genesis, read_revision
from p2pd.cli.reading import Chain, open_chain
from p2pd.cli.verify import Finding, checked_decisions, export, is_here
from p2pd.core.decision import Decision
from p2pd.core.ids import short
from p2pd.core.revision import Origin, Revision
from p2pd.daemon.beginning import Beginning, settings_of
from p2pd.errors import RemoteError, StoreError, UsageError
from p2pd.io.durable import TEMPORARY, storing

Defaults = dict[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Source:
    """What the command line says of where a revision begins."""

    weights: Path | None
    after: Path | None
    """Record of the revision to go on from."""
    data_dir: Path | None
    """Of a node that has its chain."""

    def __post_init__(self) -> None:
        if self.weights is not None and self.after is not None:
            raise UsageError("--weights and --after both say where to begin: name one of them")
        if (self.after is None) != (self.data_dir is None):
            raise UsageError(
                "--after names the record of a revision, --data-dir a node that has its chain: name both"
            )


@contextmanager
def begun(source: Source, genesis_file: Path, aside: Path) -> Iterator[tuple[Beginning, Defaults]]:
    """Where to begin, and with what settings unless others are given. aside: a directory for copies.

    Raises:
        UsageError: there is no such revision or chain.
        StoreError: the chain does not hold, or its newest head is not there.
    """
    if source.after is None or source.data_dir is None:
        yield Beginning(source.weights and source.weights.absolute()), {}
        return
    old = read_revision(source.after, read_genesis(genesis_file))
    with (
        storing(aside),
        tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=aside) as directory,
    ):
        copy = Path(directory) / "head.safetensors"
        with open_chain(genesis_file, source.data_dir, old.id.hex()) as chain:
            newest = _newest(chain, source.data_dir)
            _copy_head(chain, newest, copy, source.data_dir)
        origin = Origin(old.id, newest.height, newest.id)
        yield Beginning(copy, origin, newest.head), _defaults(old, newest)


def _defaults(old: Revision, newest: Decision) -> Defaults:
    settings: Defaults = dict(settings_of(old))
    steps = newest.state.progress.steps
    settings["schedule"] = {**settings["schedule"], "start_steps": steps}
    return settings


def _newest(chain: Chain, data_dir: Path) -> Decision:
    newest = None
    for found in checked_decisions(chain):
        if isinstance(found, Finding) and found.fault:
            raise StoreError(
                f"{data_dir}: {found.where}: {found.what}: see `p2pd heads verify`, go on from another node"
            )
        if not isinstance(found, Finding):
            newest = found
    assert newest is not None  # without a first decision there is a fault
    return newest


def _copy_head(chain: Chain, decision: Decision, copy: Path, data_dir: Path) -> None:
    if not is_here(chain, decision.head):
        raise StoreError(
            f"{data_dir}: the head of height {decision.height} is not kept here: "
            "go on from a validator's data directory"
        )
    try:
        export(chain, decision.head, copy)
    except RemoteError as error:
        raise StoreError(
            f"blob {decision.head.hex()} in {data_dir}: {error}: go on from another node's directory"
        ) from error


@contextmanager
def origin_of(chain: Chain, genesis_file: Path, directory: Path | None) -> Iterator[Chain | None]:
    """The chain that a revision goes on from: of a directory, or of the same ledger if that has it."""
    origin = chain.setting.revision.origin
    if origin is None:
        if directory is not None:
            raise UsageError("--origin-dir: this revision goes on from no other: leave it out")
        yield None
    elif directory is None:
        yield chain.other(origin.revision)
    else:
        with open_chain(genesis_file, directory, origin.revision.hex()) as old:
            yield old


def said_of(origin: Origin) -> str:
    return f"{origin.text}, decision {short(origin.decision)}"


def check_origin(revision: Revision, old: Chain | None) -> Iterator[Finding]:
    """old: the chain that the revision says it goes on from; None where it is not at hand."""
    origin = revision.origin
    if origin is None:
        return
    where = f"goes on from {said_of(origin)}"
    if old is None:
        what = "that chain is not here: name a directory that has it by --origin-dir"
        yield Finding(where, what, fault=False)
        return
    for found in checked_decisions(old):
        if isinstance(found, Finding):
            if found.fault:
                yield Finding(where, f"{found.where}: {found.what}", fault=True)
                return
            continue
        if found.height == origin.height:
            yield _compared(where, revision, found)
            return
    yield Finding(where, "that height is not in that chain here", fault=False)


def _compared(where: str, revision: Revision, decision: Decision) -> Finding:
    if revision.origin is None or decision.id != revision.origin.decision:
        return Finding(where, f"certified there is decision {short(decision.id)}", fault=True)
    if decision.head != revision.head:
        what = f"certified there is head {short(decision.head)}, not {short(revision.head)}"
        return Finding(where, what, fault=True)
    return Finding(where, "certified there, with this very head", fault=False)
