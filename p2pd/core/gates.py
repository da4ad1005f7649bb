"""The hard gates: what an update must satisfy before anyone looks at its tensors."""

from p2pd.core.codecs import element_count
from p2pd.core.decision import Decision, open_plans
from p2pd.core.derive import Setting
from p2pd.core.ids import PeerId
from p2pd.core.leases import Dealt, find_lease
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


def lease_behind(setting: Setting, update: Signed[Update], previous: Decision) -> Dealt:
    """The lease that an update claims to fulfil, of the window after previous or, late, of the one before.

    Raises:
        RemoteError: it belongs to another window, or its author holds no lease in this one: not worth keeping.
    """
    if Defence.REPLAY not in setting.defences_off:
        heights = {dealt: plan.height for dealt, plan in open_plans(previous)}
        height = heights.get(update.content.plan, previous.height + 1)
        if update.scope != setting.scope(height):
            raise RemoteError(f"update for height {update.scope.height}, not {height}")
        if update.content.plan not in heights:
            raise RemoteError("update for another plan")
    found = find_lease(update, previous, setting.defences_off)
    if found is None:
        raise RemoteError(f"{PeerId(update.signer).hex()[:10]} holds no lease")
    return found


def gate(setting: Setting, update: Signed[Update], previous: Decision) -> Verdict:
    """The verdict that follows from the announcement alone; ACCEPTED means: look at its tensors.

    Raises:
        RemoteError: as lease_behind.
    """
    content, off = update.content, setting.defences_off
    dealt = lease_behind(setting, update, previous)
    if content.samples > dealt.lease.samples and Defence.LEASE not in off:
        return Verdict.LEASE
    if content.steps > content.samples:
        return Verdict.LEASE
    bases = (dealt.plan.base, *dealt.plan.earlier)
    if content.base not in bases and Defence.REPLAY not in off:
        return Verdict.BASE
    if content.size_bytes > largest_artifact_bytes(setting.revision.update_schema):
        return Verdict.SIZE
    return Verdict.ACCEPTED
