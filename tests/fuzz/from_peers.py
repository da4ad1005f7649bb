"""Targets that read what peers send."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import trio

from p2pd.core.codecs import CODECS
from p2pd.core.encoding import decode, decode_plain, encode
from p2pd.core.forks import Fork
from p2pd.core.ids import ArtifactId, digest
from p2pd.core.talk import load_talk
from p2pd.core.validator.body import dump_body, load_body
from p2pd.core.work import HeadStep, InspectJob, RebuildJob
from p2pd.errors import RemoteError
from p2pd.io.overlay import requests
from p2pd.io.overlay.doorman import Doorman
from p2pd.io.overlay.framing import Deframer, check_hello, encode_hello, frame
from p2pd.io.overlay.streams import Stream
from p2pd.node.transfer import _checked
from p2pd.tensors import calls
from p2pd.tensors.files import TensorFile
from p2pd.tensors.formats import FORMATS
from p2pd.tensors.inspection import inspect
from p2pd.tensors.serve import answer
from p2pd.tensors.stepping import rebuild
from p2pd.wire.envelope import load, load_choices
from p2pd.wire.records import load_genesis, load_record, load_revision
from p2pd.workload import protocol
from p2pd.workload.devices import messages
from tests.core.builders import SETTING
from tests.core.strategies import KINDS
from tests.fuzz import seeds
from tests.fuzz.quic import first_flights, receive
from tests.fuzz.targets import Registry, Scratch

REPLIES: tuple[Any, ...] = (
    calls.Call, calls.Answer, calls.MergeAnswer, protocol.Request, protocol.Answer, protocol.BuildCall,
    protocol.InitialCall, protocol.TrainCall, protocol.EvaluateCall, protocol.Done, protocol.Failure, Fork, InspectJob,
    RebuildJob, protocol.Certified, messages.Hello, messages.FellowBuild, messages.FellowBuilt, messages.FellowTrain,
)  # fmt: skip
CONTROL_BYTES = 2**20
PEERS = Registry()


@PEERS.add("plain", RemoteError, seeds.envelopes, "p2pd.core.encoding.decode_plain")
def plain(data: bytes, scratch: Scratch) -> None:
    assert encode(_tuples(decode_plain(data))) == data


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@PEERS.add(
    "objects",
    RemoteError,
    lambda: [*seeds.envelopes(), *seeds.records(), *seeds.manifests(), *seeds.inspections()],
    "p2pd.core.encoding._argument",
    "p2pd.node.catch_up._learn_from",
    "p2pd.node.discovery._ask",
    "p2pd.node.fork_watch._theirs",
    "p2pd.node.governance._ask",
    "p2pd.io.math.inspect",
    "p2pd.io.math.merge",
    "p2pd.io.math.rebuild",
    "p2pd.io.math._attempt",
    "p2pd.io.worker_child._carry_answers",
    "p2pd.io.worker.parse",
    "p2pd.io.attached.attend",
    "p2pd.script._carry_out",
    "p2pd.script._receive",
    "p2pd.script._train",
    "p2pd.workload.serve._carry_out",
    "p2pd.workload.serve._next",
    "p2pd.workload.devices.crew.answer",
    "p2pd.workload.devices.crew.answers",
    "p2pd.workload.devices.fellow._carry_out",
    "p2pd.workload.devices.fellow.run",
    "p2pd.workload.devices.gathering._hello_of",
    "p2pd.workload.devices.team.take",
)
def objects(data: bytes, scratch: Scratch) -> None:
    """As each kind: what fits none is refused by all."""
    refused = None
    for kind in (*KINDS, *REPLIES):
        try:
            assert encode(decode(kind, data)) == data
        except RemoteError as error:
            refused = error
    if refused is not None:
        raise refused


def _alone(
    name: str, read: Callable[[bytes], object], made: Callable[[], Sequence[bytes]], cover: str
) -> None:
    """A target that needs nothing but the bytes."""
    PEERS.add(name, RemoteError, made, cover)(lambda data, scratch: read(data))


_alone(
    "envelope",
    lambda data: load(data, seeds.NETWORK),
    seeds.envelopes,
    "p2pd.wire.envelope._load",
)
_alone(
    "choices",
    lambda data: load_choices(data, seeds.NETWORK),
    lambda: [encode(seeds.CHOSEN)],
    "p2pd.wire.envelope._load_choices",
)
_alone("talk", load_talk, seeds.talks, "p2pd.core.talk._load_talk")
_alone(
    "record",
    lambda data: load_record(data, seeds.NETWORK),
    seeds.records,
    "p2pd.wire.records._load_record",
)
_alone("genesis", load_genesis, seeds.genesis, "p2pd.wire.records.load_genesis")
_alone(
    "revision",
    lambda data: load_revision(data, SETTING.genesis),
    seeds.revisions,
    "p2pd.wire.records.load_revision",
)
_alone(
    "body",
    lambda data: load_body(data, seeds.NEXT.id, limit_bytes=len(data)),
    lambda: [dump_body(seeds.NEXT)],
    "p2pd.core.validator.body.load_body",
)
_alone(
    "hello",
    lambda data: check_hello(data, seeds.HELLO),
    lambda: [encode_hello(seeds.HELLO)],
    "p2pd.io.overlay.framing.check_hello",
)


@PEERS.add("manifest", RemoteError, seeds.manifests, "p2pd.node.transfer._checked")
def manifest(data: bytes, scratch: Scratch) -> None:
    # Named by what it is, so that more than its hash is looked at.
    _checked(digest("artifact", data), data)  # type: ignore[arg-type]


@PEERS.add(
    "control lane",
    RemoteError,
    lambda: [frame(encode_hello(seeds.HELLO)) + frame(one) for one in seeds.talks()],
    "p2pd.io.overlay.framing.feed",
)
def control_lane(data: bytes, scratch: Scratch) -> None:
    deframer = Deframer(CONTROL_BYTES)
    whole = [
        message for at in range(0, len(data), 7) for message in deframer.feed(data[at : at + 7])
    ]
    assert b"".join(map(frame, whole)) == data[: sum(len(frame(one)) for one in whole)]


class Trickle:
    """Stands for the stream of a response: a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        part, self._data = self._data[:1000], self._data[1000:]
        return part


@PEERS.add(
    "response",
    RemoteError,
    lambda: [
        bytes(1) + (3).to_bytes(requests.HEAD_BYTES - 1) + b"yes",
        bytes([1, 0, 0, 0, 0, 0, 0, 0, 0]),
    ],
    "p2pd.io.overlay.requests._read_response",
)
def response(data: bytes, scratch: Scratch) -> None:
    trio.run(requests._read_response, cast(Stream, Trickle(data)), 2**16)


@PEERS.add(
    "datagrams",
    RemoteError,
    first_flights,
)
def datagrams(data: bytes, scratch: Scratch) -> None:
    """One that belongs to nothing, and one that a connection takes in."""
    for retry in (False, True):
        Doorman().examine(data, ("127.0.0.1", 4700), 0.0, retry=retry)
    receive(data)


@PEERS.add(
    "tensors",
    RemoteError,
    seeds.tensors,
    "p2pd.tensors.layout.header_size",
    "p2pd.tensors.layout.parse",
    "p2pd.tensors.files._flat",
    "p2pd.workload.heads.read_head",
    "p2pd.tensors.files.open_artifact",
)
def tensors(data: bytes, scratch: Scratch) -> None:
    path = scratch / "tensors"
    path.write_bytes(data)
    file = TensorFile(path)
    for index, tensor in enumerate(file.tensors):
        if FORMATS[tensor.dtype].floating:
            file.values(index, slice(None))
        else:
            file.stored(index)


@PEERS.add(
    "update",
    RemoteError,
    seeds.tensors,
    "p2pd.tensors.inspection.inspect",
    "p2pd.tensors.inspection._base",
)
def update(data: bytes, scratch: Scratch) -> None:
    """As a validator judges it, in each codec."""
    artifact, base = SETTING.revision.head, seeds.HERE
    paths = {artifact: scratch / "update", base: scratch / "base"}
    paths[artifact].write_bytes(data)
    paths[base].write_bytes(seeds.tensors()[0])
    for codec in CODECS:
        inspect(paths, InspectJob(artifact, base, seeds.SCHEMA, codec))  # type: ignore[arg-type]


@PEERS.add("step", RemoteError, seeds.steps)
def step(data: bytes, scratch: Scratch) -> None:
    """A head is made of it, and is another than the one that was asked for."""
    head, base = SETTING.revision.head, ArtifactId(seeds.HERE)
    paths = {head: scratch / "step", base: scratch / "base"}
    paths[head].write_bytes(data)
    paths[base].write_bytes(seeds.tensors()[0])
    job = RebuildJob(head, HeadStep(base, head), seeds.SCHEMA, "int8")
    (scratch / "made").unlink(missing_ok=True)
    with suppress(RemoteError):
        rebuild(paths, job, scratch / "made")
    assert not (scratch / "made").exists()


@PEERS.add(
    "math call",
    RemoteError,
    lambda: [
        encode(
            calls.Call(
                calls.CallKind.INSPECT,
                encode(InspectJob(SETTING.revision.head, SETTING.revision.head, seeds.SCHEMA)),
                (),
                "",
            )
        )
    ],
    "p2pd.tensors.serve.answer",
    "p2pd.tensors.serve.carry_out",
)
def math_call(data: bytes, scratch: Scratch) -> None:
    answer(data, 2**30, 1)
