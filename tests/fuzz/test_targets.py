"""Every reader of bytes from outside, on any bytes: a value or its error, in bounded memory."""

import ast
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.every import TARGETS
from tests.fuzz.from_peers import PEERS

SOURCES = Path(__file__).parents[2]
READERS = {"loads", "frombuffer", "unpack", "from_bytes", "fromhex", "CBORDecoder", "TensorFile"}
HUGE = (
    b"\x9b" + (2**40).to_bytes(8),  # an array of so many
    b"\x5b" + (2**40).to_bytes(8),  # bytes
    b"\x85\x64vote\x9b" + (2**40).to_bytes(8),
    b"\xff" * 4 + b"x" * 20,  # a frame
    (2**40).to_bytes(8, "little") + b"{}",  # a header
    b"\x01" + (2**40).to_bytes(8),  # a response
    b"[" * 100_000,
    b"a = " + b"[" * 100_000,
    b"\x81" * 100_000,
    b"9" * 100_000,
    b"x = " + b"9" * 100_000,
    b'{"a":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,1]}}',
)
SPARE_BYTES = 4 * 2**20
GROWTH = 80
GROWTH_OF_FILES = 200
"""Bytes of memory for a byte of input: more for what the operator wrote."""


@st.composite
def changed(draw: st.DrawFn, name: str) -> bytes:
    """A sound input with some bytes of it replaced, cut, put in or repeated."""
    data = bytearray(draw(st.sampled_from(TARGETS[name].seeds())))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        until = min(len(data), at + draw(st.integers(0, 8)))
        data[at:until] = draw(st.binary(max_size=8))
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_i08_any_bytes_give_a_value_or_the_error_that_is_theirs(
    name: str, tmp_path: Path, data: st.DataObject
) -> None:
    TARGETS[name].run(data.draw(st.one_of(st.binary(max_size=300), changed(name))), tmp_path)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_sound_is_accepted(name: str, tmp_path: Path) -> None:
    """Otherwise a fuzzer would begin with nothing."""
    target = TARGETS[name]
    accepted = 0
    for seed in target.seeds():
        try:
            target.read(seed, tmp_path)
            accepted += 1
        except target.refuses:
            continue
    assert accepted or name in ("objects", "words", "ledger rows")  # each seed fits one of many


@pytest.mark.parametrize("name", TARGETS)
def test_i08_a_declared_size_takes_no_memory(name: str, tmp_path: Path) -> None:
    target, growth = TARGETS[name], GROWTH if name in PEERS else GROWTH_OF_FILES
    inputs = [
        *HUGE,
        *(seed[: len(seed) // 2] + huge for seed in target.seeds()[:3] for huge in HUGE[:4]),
    ]
    target.run(inputs[0], tmp_path)  # what is imported and cached is not counted
    tracemalloc.start()
    try:
        for data in inputs:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            target.run(data, tmp_path)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < SPARE_BYTES + growth * len(data), data[:40]
    finally:
        tracemalloc.stop()


def sites() -> Iterator[str]:
    """Functions of the product that make something of bytes: module.function."""
    for package in ("p2pd", "roles"):
        for path in sorted((SOURCES / package).rglob("*.py")):
            tree = ast.parse(path.read_text())
            decoders = {
                alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module == "p2pd.core.encoding"
                for alias in node.names
                if alias.name.startswith("decode")
            }
            module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                    reads(one, decoders) for one in ast.walk(node) if isinstance(one, ast.Call)
                ):
                    yield f"{module}.{node.name}"


def reads(call: ast.Call, decoders: set[str]) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in READERS | decoders
        case ast.Attribute(attr=name):
            return name in READERS
    return False


NOT_FROM_OUTSIDE = {
    "p2pd.sim.": "what the simulator made itself",
    "p2pd.bench.": "what a benchmark's own processes say",
    "p2pd.cli.alone.train": "lines of a process of ours",
    "p2pd.daemon.demo._train_alone": "lines of a process of ours",
    "p2pd.io.probing._torch": "the same",
    "p2pd.daemon.data.named_in": "the configuration in a revision that the authority signed",
    "p2pd.cli.experiment.list_revisions": "the configuration in a revision that the authority signed",
    "p2pd.cli.revisions.revision_json": "the same",
    "p2pd.workload.session.": "the same",
    "p2pd.workload.devices.replica.__init__": "the same",
    "p2pd.workload.alone.main": "the command line of a process of ours",
    "p2pd.cli.reading.records": "the key of a row, whose length is known",
    "p2pd.node.chronicle._height": "the same",
    "p2pd.node.governance._take_up": "the same",
    "p2pd.node.lineage.tally": "choices in a certified decision",
    "p2pd.daemon.scripts._decided": "the same",
    "p2pd.cli.verify._blobs": "names of files, matched before",
    "p2pd.core.revision.shard_set": "the same of an id",
    "p2pd.workload.sharded.__init__": "the same of an id",
    "p2pd.core.permutation._feistel": "a hash",
    "p2pd.core.trainer.": "a hash",
    "p2pd.node.relays._lot": "a hash",
    "p2pd.node.node.__init__": "a hash",
    "p2pd.workload.streams.__getitem__": "a hash",
    "p2pd.io.overlay.datagrams._receive_run": "what the kernel says of a datagram",
    "p2pd.workload.updates.": "a head that was certified, and the trainer's own file",
    "p2pd.workload.inner._set_chance": "the trainer's own file, whose digest fits",
    "p2pd.workload.trees.write_tree": "what was encoded in the line before",
    "p2pd.workload.devices.sharing._give_inner": "the same",
    "p2pd.workload.devices.gradients.finish": "buckets of gradients, which unpack themselves",
    "p2pd.workloads.bytegpt._bytes": "text of the standard library",
}
"""And why."""


def test_every_function_that_reads_bytes_from_outside_is_fuzzed() -> None:
    covered = {site for target in TARGETS.values() for site in target.covers}
    found = set(sites())
    assert sorted(site for site in found - covered if not exempt(site)) == []
    assert sorted(covered - found) == [], "no longer reads anything"
    assert all(any(site.startswith(rule) for site in found - covered) for rule in NOT_FROM_OUTSIDE)


def exempt(site: str) -> bool:
    return site.startswith(tuple(NOT_FROM_OUTSIDE))
