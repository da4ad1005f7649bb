"""The hard gates: what an update must satisfy before anyone looks at its tensors."""

from p2pd.core.codecs import element_count
from p2pd.core.decision import Decision, Lease
from p2pd.core.derive import Setting
from p2pd.core.ids import PeerId
from p2pd.core.messages import Update
from p2pd.core.signed import Signed
from p2pd.core.voting.events import Defence
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


def lease_behind(setting: Setting, update: Signed[Update], previous: Decision) -> Lease:
    """The lease that an update of the window after previous claims to fulfil.

    Raises:
        RemoteError: it belongs to another window, or its author holds no lease in this one: not worth keeping.
    """
    if Defence.REPLAY not in setting.defences_off:
        scope = setting.scope(previous.height + 1)
        if update.scope != scope:
            raise RemoteError(f"update for height {update.scope.height}, not {scope.height}")
        if update.content.plan != previous.id:
            raise RemoteError("update for another plan")
    lease = previous.state.plan.lease_of(update.signer)
    if lease is None:
        raise RemoteError(f"{PeerId(update.signer).hex()[:10]} holds no lease")
    return lease


def gate(setting: Setting, update: Signed[Update], previous: Decision) -> Verdict:
    """The verdict that follows from the announcement alone; ACCEPTED means: look at its tensors.

    Raises:
        RemoteError: as lease_behind.
    """
    content, off = update.content, setting.defences_off
    lease = lease_behind(setting, update, previous)
    if content.samples > lease.samples and Defence.LEASE not in off:
        return Verdict.LEASE
    if content.steps > content.samples:
        return Verdict.LEASE
    if content.base != previous.state.plan.base and Defence.REPLAY not in off:
        return Verdict.BASE
    if content.size_bytes > largest_artifact_bytes(setting.revision.update_schema):
        return Verdict.SIZE
    return Verdict.ACCEPTED
