"""Targets that read files, pipes of this node's own processes, and what a person typed."""

import json
import os
from copy import copy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
import trio.testing

from p2pd.cli import inputs
from p2pd.cli.reading import open_ledger
from p2pd.cli.revisions import _setting
from p2pd.cli.settings import effective
from p2pd.cli.verify import _check_blob as verify_blob
from p2pd.config.names import parse_address, parse_peer_id, parse_public_key, parse_seed
from p2pd.core.encoding import encode
from p2pd.core.ids import DecisionId
from p2pd.core.votes import NO_ROUND, Step
from p2pd.core.voting.durable import Memory
from p2pd.core.work import TensorSpec
from p2pd.daemon import files
from p2pd.daemon.governing import _record_of
from p2pd.daemon.publish import _check_config
from p2pd.daemon.settings import load_node
from p2pd.errors import LocalError, P2pError, RemoteError, StoreError, UsageError, WorkloadError
from p2pd.io import control, frames
from p2pd.io.blob_files import BlobFiles
from p2pd.io.keys import load_key
from p2pd.io.ledger import SqliteLedger, count_file_of
from p2pd.io.lock import _written
from p2pd.node.chronicle import Chronicle, place
from p2pd.ports import Table, Write
from p2pd.sim.store import MemoryLedger
from p2pd.status.snapshot import from_json, to_json
from p2pd.tensors import frames as pipes
from p2pd.tensors.foreign import entries_of
from p2pd.tensors.layout import layout_of
from p2pd.workloads import mnist
from tests.core.builders import SETTING, VALIDATORS, prevote
from tests.fuzz import seeds
from tests.fuzz.targets import Registry, Scratch
from tests.status.samples import busy

FRAME_BYTES = 2**16
DISK = Registry()
WEIGHTS = layout_of([TensorSpec("weight", "F32", (1,), False)]).header + bytes(4)
IDX = bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3])


def written(scratch: Scratch, name: str, data: bytes) -> Path:
    path = scratch / name
    path.write_bytes(data)
    return path


@DISK.add(
    "configuration",
    UsageError,
    seeds.configurations,
    "p2pd.config.loading.__init__",
    "p2pd.config.lines._read_key",
    "p2pd.cli.settings.is_fleet",
)
def configuration(data: bytes, scratch: Scratch) -> None:
    path = written(scratch, "node.toml", data)
    try:
        effective(path)
    finally:
        load_node(path)


@DISK.add("key", StoreError, lambda: [b"ab" * 32 + b"\n"], "p2pd.io.keys.load_key")
def key(data: bytes, scratch: Scratch) -> None:
    path = written(scratch, "key", data)
    path.chmod(0o600)
    load_key(path)


@DISK.add("genesis file", StoreError, seeds.genesis)
def genesis_file(data: bytes, scratch: Scratch) -> None:
    path = written(scratch, "genesis", data)
    try:
        files.read_genesis(path)
    except UsageError:
        inputs.read_genesis(path)


@DISK.add("revision file", (StoreError, UsageError), seeds.revisions)
def revision_file(data: bytes, scratch: Scratch) -> None:
    path = written(scratch, "revision", data)
    (signed,) = seeds.genesis()
    genesis = files.read_genesis(written(scratch, "genesis", signed))
    try:
        files.read_revision(path, genesis)
    except UsageError:
        inputs.read_revision(path, genesis.genesis)


@DISK.add(
    "ledger rows",
    StoreError,
    lambda: [*seeds.envelopes(), *seeds.records(), *seeds.revisions(), encode(seeds.FORK)],
    "p2pd.node.chronicle.fork",
)
def ledger_rows(data: bytes, scratch: Scratch) -> None:
    """In each table, as if the file had rotted where its sums do not see it."""
    ledger = MemoryLedger()
    at = place(seeds.HERE, 1)
    writes = [Write(table, at, data) for table in Table]

    async def store() -> None:
        await ledger.commit(writes)

    trio.run(store)
    chronicle, faults = chronicle_on(ledger), []
    for read in (
        lambda: chronicle.record(1),
        lambda: chronicle.next_record(1),
        lambda: chronicle.farthest(0),
        lambda: chronicle.own(1, VALIDATORS[0].key),
        lambda: chronicle.reports(1),
        chronicle.fork,
    ):
        try:
            read()
        except StoreError as error:
            faults.append(error)
    if faults:
        raise faults[0]


@cache
def empty_chronicle() -> Chronicle:
    return Chronicle(MemoryLedger(), SETTING)


def chronicle_on(ledger: MemoryLedger) -> Chronicle:
    """Of the same revision, whose genesis decision takes long to derive."""
    chronicle = copy(empty_chronicle())
    chronicle._ledger = ledger
    return chronicle


def voting_states() -> list[bytes]:
    memory = Memory(SETTING.scope(2))
    memory.add_vote(prevote(2, VALIDATORS[0], DecisionId(bytes(32))))
    assert memory.vote(Step.PREVOTE, 0) is not None
    assert NO_ROUND < 0
    return [memory.encode()]


@DISK.add(
    "votes",
    LocalError,
    voting_states,
    "p2pd.core.voting.durable._load",
    "p2pd.core.voting.durable._optional",
)
def votes(data: bytes, scratch: Scratch) -> None:
    Memory.load(SETTING.scope(2), data)


@cache
def ledgers() -> list[bytes]:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "ledger.sqlite"
        SqliteLedger(path).close()
        return [path.read_bytes()]


@DISK.add("ledger file", StoreError, ledgers, "p2pd.io.ledger._noted")
def ledger_file(data: bytes, scratch: Scratch) -> None:
    path = written(scratch, "ledger.sqlite", data)
    for companion in ("-wal", "-shm"):
        path.with_name(path.name + companion).unlink(missing_ok=True)
    count_file_of(path).write_bytes(data[:40])
    with SqliteLedger(path) as ledger:
        ledger.scan(Table.DECISIONS, b"")
    with open_ledger(scratch):
        pass
    count_file_of(path).unlink()


@DISK.add(
    "blob directory",
    StoreError,
    seeds.manifests,
    "p2pd.io.blob_files._load_manifest",
    "p2pd.io.blob_files.survey",
    "p2pd.io.blob_files.damaged_bytes",
    "p2pd.cli.verify._manifest",
)
def blob_directory(data: bytes, scratch: Scratch) -> None:
    directory = scratch / "blobs"
    directory.mkdir(exist_ok=True)
    name = SETTING.revision.head.hex()
    (directory / f"{name}.manifest").write_bytes(data)
    (directory / name).write_bytes(data)
    blobs = BlobFiles(directory)
    verify_blob(directory, SETTING.revision.head)
    blobs.survey()
    list(blobs.damaged_bytes())


@DISK.add("control request", RemoteError, seeds.lines, "p2pd.io.control._parse")
def control_request(data: bytes, scratch: Scratch) -> None:
    control._parse(data)


@DISK.add("control answer", P2pError, seeds.lines, "p2pd.io.control._unwrap")
def control_answer(data: bytes, scratch: Scratch) -> None:
    control._unwrap(data, scratch)


@DISK.add("snapshot", RemoteError, lambda: [json.dumps(to_json(busy())).encode()])
def snapshot(data: bytes, scratch: Scratch) -> None:
    """What a node says of itself, after it was read as a line."""
    try:
        said = control._unwrap(b'{"answer":' + data + b"}", scratch)
    except P2pError:
        return
    from_json(said)


@DISK.add(
    "frames",
    RemoteError,
    lambda: [(3).to_bytes(4) + b"yes", bytes(4)],
    "p2pd.io.frames.read_frame",
    "p2pd.tensors.frames.read_frame",
)
def pipe_frames(data: bytes, scratch: Scratch) -> None:
    """Both sides of the pipe to a process that the node started."""
    source, sink = os.pipe()
    try:
        os.write(sink, data[:FRAME_BYTES])
        os.close(sink)
        while pipes.read_frame(source, FRAME_BYTES) is not None:
            pass
    finally:
        os.close(source)

    async def read() -> None:
        receive = trio.testing.MemoryReceiveStream()
        receive.put_data(data)
        receive.put_eof()
        while await frames.read_frame(receive, FRAME_BYTES) is not None:
            pass

    trio.run(read)


@DISK.add(
    "words",
    UsageError,
    lambda: [
        b"127.0.0.1:4700",
        b"[::1]:1",
        b"ab" * 32,
        b"ab" * 32 + b"@host:1",
        b"data.shards=3",
        b'k={"a":[1]}',
    ],
    "p2pd.config.names._parse_hex",
    "p2pd.cli.inputs.parse_config",
    "p2pd.cli.revisions._setting",
    "p2pd.daemon.publish._check_config",
)
def words(data: bytes, scratch: Scratch) -> None:
    """What stands on a command line or in a setting."""
    text = data.decode(errors="surrogateescape")
    refused = None
    for parse in (
        parse_address,
        parse_peer_id,
        parse_public_key,
        parse_seed,
        _setting,
        lambda text: inputs.parse_config([text]),
        _check_config,
    ):
        try:
            parse(text)
        except UsageError as error:
            refused = error
    if refused is not None:
        raise refused


@DISK.add("lock", LocalError, lambda: [b"123\n"])
def lock(data: bytes, scratch: Scratch) -> None:
    with written(scratch, "lock", data).open("rb") as file:
        _written(file.fileno())


@DISK.add(
    "governance",
    (RemoteError, UsageError),
    seeds.governance,
    "p2pd.wire.records.load_governance",
    "p2pd.daemon.governing._record_of",
)
def governance(data: bytes, scratch: Scratch) -> None:
    """As a person hands it to a node; as bytes it comes from neighbours and from the ledger."""
    try:
        _record_of(data.decode("latin1"), seeds.NETWORK)
    except UsageError:
        _record_of(data.hex(), seeds.NETWORK)


@DISK.add("weights", RemoteError, lambda: [WEIGHTS], "p2pd.tensors.foreign._parsed")
def weights(data: bytes, scratch: Scratch) -> None:
    entries_of(written(scratch, "weights", data))


@DISK.add("mnist", WorkloadError, lambda: [IDX], "p2pd.workloads.mnist._table")
def mnist_table(data: bytes, scratch: Scratch) -> None:
    for name in ("table", "table.gz"):
        try:
            mnist._table(written(scratch, name, data), 1)
        except WorkloadError:
            continue
