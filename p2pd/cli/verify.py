"""Checks a data directory with nothing but the genesis: every decision, every report, every artifact.

Blobs are hashed chunk by chunk; nothing is changed, so a node may run meanwhile.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from p2pd.cli.reading import Chain
from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.chain import check_jump, check_record
from p2pd.core.decision import Decision, Record, artifacts_of
from p2pd.core.derive import genesis_decision
from p2pd.core.encoding import decode
from p2pd.core.ids import ArtifactId
from p2pd.core.wording import counted
from p2pd.errors import RemoteError, StoreError
from p2pd.io.blob_files import MAX_MANIFEST_BYTES, NAME
from p2pd.io.durable import TEMPORARY, exists, read_most, storing, sync_directory
from p2pd.wire.envelope import load_choices
from p2pd.wire.records import load_record


@dataclass(frozen=True, slots=True)
class Finding:
    where: str
    what: str
    fault: bool
    """False: only worth knowing."""


@dataclass(frozen=True, slots=True)
class Verification:
    decisions: int
    """Checked, from D(0) on."""
    artifacts: int
    """Whole and as their manifest says."""
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        return not any(finding.fault for finding in self.findings)

    def and_found(self, more: Iterable[Finding]) -> "Verification":
        return replace(self, findings=(*self.findings, *more))

    def as_json(self) -> dict[str, object]:
        findings = [
            {"where": found.where, "what": found.what, "fault": found.fault}
            for found in self.findings
        ]
        return {
            "ok": self.sound,
            "decisions": self.decisions,
            "artifacts": self.artifacts,
            "findings": findings,
        }

    def lines(self) -> list[str]:
        ordered = sorted(self.findings, key=lambda finding: not finding.fault)
        return [
            *(f"{'FAULT' if f.fault else 'note '}  {f.where}: {f.what}" for f in ordered),
            f"{'sound' if self.sound else 'not sound'}: "
            f"{counted(self.decisions, 'decision')} and {counted(self.artifacts, 'artifact')} checked",
        ]


CERTIFIED_KINDS = (ArtifactKind.HEAD, ArtifactKind.OUTER)
NAMES = {ArtifactKind.HEAD: "head", ArtifactKind.OUTER: "outer state", ArtifactKind.STEP: "step"}


Certified = dict[tuple[ArtifactId, ArtifactKind], int]
"""What decisions say that an artifact is, with the first height that says so."""


def verify(chain: Chain, *, live: bool = False) -> Verification:
    """live: a node runs in that directory."""
    findings: list[Finding] = []
    certified: Certified = {}
    decisions = 0
    newest: tuple[tuple[ArtifactId, ArtifactKind], ...] = ()
    for found in checked_decisions(chain):
        if isinstance(found, Finding):
            findings.append(found)
            continue
        decisions += 1
        newest = tuple(zip(artifacts_of(found), CERTIFIED_KINDS, strict=False))
        step = () if found.step is None else ((found.step.artifact, ArtifactKind.STEP),)
        for artifact in (*newest, *step):
            certified.setdefault(artifact, found.height)
    reports = _reports(chain)
    findings += reports
    artifacts = 0
    for whole, problem in _blobs(chain.blobs, live=live):
        if problem is not None:
            findings.append(problem)
        elif whole is not None:
            artifacts += 1
    findings += _wrong_kinds(chain, certified)
    findings += _missing(chain, newest, certified)
    return Verification(decisions, artifacts, tuple(findings))


def checked_decisions(chain: Chain) -> Iterator[Decision | Finding]:
    """Each as far as it holds; a fault is the last that comes."""
    previous: Decision | None = None
    for height, data in chain.records():
        try:
            record = load_record(data, chain.setting.genesis.network)
            decision = _checked(chain, previous, record)
        except RemoteError as error:
            what = str(error).removeprefix(f"height {height}: ")
            yield Finding(f"height {height}", what, fault=True)
            return
        if previous is not None and height > previous.height + 1:
            yield _gap(previous.height, height)
        yield decision
        previous = decision
    if previous is None:
        yield Finding("height 0", "missing: there is no decision here", fault=True)


def _gap(below: int, above: int) -> Finding:
    """What a node that was far behind leapt over."""
    where = f"height {below + 1}" if above == below + 2 else f"heights {below + 1} to {above - 1}"
    return Finding(where, f"not here: height {above} is certified without", fault=False)


def _checked(chain: Chain, previous: Decision | None, record: Record) -> Decision:
    setting = chain.setting
    if previous is None:
        if record != Record(genesis_decision(setting), None):
            raise RemoteError("does not follow from the genesis and the signed revision")
    elif record.decision.height > previous.height + 1:
        check_jump(setting, previous, record)
    else:
        choices = load_choices(record.decision.choices, setting.genesis.network)
        check_record(setting, previous, record, choices)
    return record.decision


def _reports(chain: Chain) -> Iterator[Finding]:
    for height, _ in chain.records():
        try:
            chain.reports(height)
        except RemoteError as error:
            what = str(error).removeprefix(f"height {height}: ")
            yield Finding(f"reports of height {height}", what, fault=True)


def _missing(
    chain: Chain, newest: tuple[tuple[ArtifactId, ArtifactKind], ...], certified: Certified
) -> Iterator[Finding]:
    """What a node needs in order to go on from here."""
    for artifact, kind in newest:
        if not is_here(chain, artifact):
            what = f"the {NAMES[kind]} of height {certified[artifact, kind]} is not here"
            yield Finding(f"blob {artifact.hex()}", what, fault=False)


def _wrong_kinds(chain: Chain, certified: Certified) -> Iterator[Finding]:
    """What is here by the id of a head, of an outer state or of a step must be one, of this revision."""
    for (artifact, kind), height in certified.items():
        path = chain.blobs / f"{artifact.hex()}.manifest"
        if not exists(path):
            continue
        try:
            manifest = _manifest(path, artifact)
        except RemoteError:
            continue  # found where blobs are checked
        if (manifest.kind, manifest.schema) != (kind, chain.setting.revision.schema_of(kind).id):
            what = f"height {height} names it as its {NAMES[kind]}, and it is none of this revision"
            yield Finding(f"blob {artifact.hex()}", what, fault=True)


def _blobs(directory: Path, *, live: bool) -> Iterator[tuple[ArtifactId | None, Finding | None]]:
    """Each artifact that is sound, and each file that is not part of one.

    live: a node runs here, and goes on writing and removing.
    """
    with storing(directory):
        names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    for name in names:
        match = NAME.fullmatch(name)
        if match is None:
            if not live or not name.startswith(TEMPORARY):  # else it is being written
                yield None, Finding(f"file {directory / name}", _stranger(name), fault=False)
        elif match[2] == ".damaged":
            yield (
                None,
                Finding(f"blob {match[1]}", "an earlier copy was damaged: kept aside", fault=False),
            )
        elif match[2] == ".part":
            yield None, Finding(f"blob {match[1]}", "not whole yet", fault=False)
        elif match[2] == ".keep":
            continue  # says only that this one is to stay
        elif match[2] == "":
            artifact = ArtifactId(bytes.fromhex(name))
            problem = _check_blob(directory, artifact)
            if problem is None or not live or exists(directory / name):  # else just removed
                yield artifact, problem
        elif not any(exists(directory / one) for one in (match[1], f"{match[1]}.part")):
            yield None, Finding(f"blob {match[1]}", "a manifest without its artifact", fault=False)


def _stranger(name: str) -> str:
    return "left unfinished" if name.startswith(TEMPORARY) else "not a file of the store"


def _check_blob(directory: Path, artifact: ArtifactId) -> Finding | None:
    where = f"blob {artifact.hex()}"
    try:
        manifest = _manifest(directory / f"{artifact.hex()}.manifest", artifact)
        _check_payload(directory / artifact.hex(), manifest)
    except RemoteError as error:
        return Finding(where, str(error), fault=True)
    except StoreError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        return Finding(where, "was removed while it was read", fault=True)
    return None


def _manifest(path: Path, artifact: ArtifactId) -> Manifest:
    if not exists(path):
        raise RemoteError("its manifest is missing")
    with storing(path), path.open("rb") as file:
        data = read_most(file, MAX_MANIFEST_BYTES)
    manifest = decode(Manifest, data, limit_bytes=MAX_MANIFEST_BYTES)
    if manifest.id != artifact:
        raise RemoteError("its manifest is another one's, or was changed")
    return manifest


def _check_payload(path: Path, manifest: Manifest) -> None:
    with storing(path), path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes != manifest.size_bytes:
            raise RemoteError(
                f"{counted(size_bytes, 'byte')}, its manifest says {manifest.size_bytes}"
            )
        for index, chunk in enumerate(manifest.chunks):
            if sha256(file.read(CHUNK_BYTES)).digest() != chunk:
                raise RemoteError(f"chunk {index} was changed")


def is_here(chain: Chain, artifact: ArtifactId) -> bool:
    """Whether the data directory keeps an artifact; whether its bytes hold is another question."""
    return exists(chain.blobs / artifact.hex())


def export(chain: Chain, head: ArtifactId, out: Path) -> Manifest:
    """Copies a head, hashing what is copied; out is whole or not there.

    Raises:
        RemoteError: it is damaged, or no head of this revision.
        StoreError: it is not here, or out cannot be written.
    """
    source = chain.blobs / head.hex()
    manifest = _manifest(source.with_name(f"{head.hex()}.manifest"), head)
    if (
        manifest.kind is not ArtifactKind.HEAD
        or manifest.schema != chain.setting.revision.schema.id
    ):
        raise RemoteError("not a head of this revision")
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with storing(source), source.open("rb") as file, storing(out), aside.open("xb") as copy:
            for index, wanted in enumerate(manifest.chunks):
                chunk = file.read(CHUNK_BYTES)
                if sha256(chunk).digest() != wanted:
                    raise RemoteError(f"chunk {index} was changed")
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
        with storing(out):
            aside.replace(out)
            sync_directory(out.parent)
    finally:
        aside.unlink(missing_ok=True)
    return manifest
