"""What a trainer's lease starts from, where the network has moved on meanwhile: docs/decisions/0011.

rebase: the new head, and the trainer's own steps that are not decided yet. replace: the new head alone. root_ema:
a mean of the new head and of where the trainer itself had come to. What is gone on with before a decision starts
from the trainer's own state in all three. Units: heights of plans; millionths.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from p2pd.core.ids import ArtifactId
from p2pd.core.work import MILLION

REBASE, REPLACE, ROOT_EMA = RECONCILE = ("rebase", "replace", "root_ema")


@dataclass(frozen=True, slots=True)
class Start:
    """Beside the base."""

    carry: tuple[int, ...]
    """Heights of own leases whose steps are put onto it."""
    own: int
    """Share of the trainer's own weights, as its last lease left them."""


def start_of(
    reconcile: str,
    own_weight: int,
    undecided: Mapping[int, ArtifactId],
    base: ArtifactId,
    *,
    ahead: bool,
) -> Start:
    """undecided: heights of own updates that no decision has looked at, with the heads that they started from."""
    if reconcile == ROOT_EMA:
        return Start((), MILLION if ahead else own_weight)
    carry = (
        height
        for height, start in sorted(undecided.items())
        if reconcile == REBASE or start == base
    )
    return Start(tuple(carry), 0)
