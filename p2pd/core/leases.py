"""Which lease an update claims to fulfil: of the open plan or, late, of the one before."""

from dataclasses import dataclass

from p2pd.core.decision import Decision, Lease, Plan, open_plans
from p2pd.core.messages import Update
from p2pd.core.signed import Signed
from p2pd.core.voting.events import Defence


@dataclass(frozen=True, slots=True)
class Dealt:
    """A lease whose update may be decided next, with the plan that dealt it."""

    plan: Plan
    lease: Lease


def find_lease(
    update: Signed[Update], previous: Decision, off: frozenset[Defence] = frozenset()
) -> Dealt | None:
    """None where its plan is none that is open after previous, or holds no lease of its author."""
    for dealt, plan in open_plans(previous):
        if update.content.plan == dealt and update.scope.height == plan.height:
            return _in(plan, update)
    return _in(previous.state.plan, update) if Defence.REPLAY in off else None


def _in(plan: Plan, update: Signed[Update]) -> Dealt | None:
    lease = plan.lease_of(update.signer)
    return None if lease is None else Dealt(plan, lease)
