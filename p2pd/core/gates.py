"""The hard gates: what an update must satisfy before anyone looks at its tensors."""

from p2pd.core.codecs import element_count
from p2pd.core.decision import Decision, Lease
from p2pd.core.ids import PeerId
from p2pd.core.messages import Update
from p2pd.core.signed import Scope, Signed
from p2pd.core.work import DTYPE_BYTES, Schema, Verdict
from p2pd.errors import RemoteError

HEADER_BYTES_PER_TENSOR = 512
"""Generous: a safetensors header entry is a name, a type, a shape and two offsets."""


def largest_artifact_bytes(schema: Schema) -> int:
    """The most that the tensors of this schema take on disk."""
    total = 1024
    for tensor in schema.tensors:
        data_bytes = element_count(tensor) * DTYPE_BYTES[tensor.dtype]
        total += data_bytes + HEADER_BYTES_PER_TENSOR + len(tensor.name)
    return total


def lease_behind(update: Signed[Update], previous: Decision, scope: Scope) -> Lease:
    """The lease that an update claims to fulfil.

    Raises:
        RemoteError: it belongs to another window, or its author holds no lease in this one: not worth keeping.
    """
    if update.scope != scope:
        raise RemoteError(f"update for height {update.scope.height}, not {scope.height}")
    if update.content.plan != previous.id:
        raise RemoteError("update for another plan")
    lease = previous.state.plan.lease_of(update.signer)
    if lease is None:
        raise RemoteError(f"{PeerId(update.signer).hex()[:10]} holds no lease")
    return lease


def gate(update: Signed[Update], previous: Decision, lease: Lease, schema: Schema) -> Verdict:
    """The verdict that follows from the announcement alone; ACCEPTED means: look at its tensors.

    schema is that of an update's file.
    """
    content = update.content
    if content.samples > lease.samples or content.steps > content.samples:
        return Verdict.LEASE
    if content.base != previous.state.plan.base:
        return Verdict.BASE
    if content.size_bytes > largest_artifact_bytes(schema):
        return Verdict.SIZE
    return Verdict.ACCEPTED
