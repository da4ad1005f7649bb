"""What peers do wrong and how much they ask, and who is shunned for it. Seconds.

Faults are forgiven with time; too many of them, or asking too much without end, closes the link, and for a while
the peer is neither dialled nor taken. Being slow, late or away is no fault.

Work is counted in units: a unit is what an object of some 250 bytes costs, a signature to verify for the most part.
The validators of the genesis have an allowance of their own; all others share one as well, so that
many strangers cannot starve them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from p2pd.core.ids import PeerId

FAULTS_MOST = 50
"""Such as objects that do not hold: a few are bad luck or a race."""
FORGIVE_S = 60.0
"""One fault is forgotten in so long."""
SHUN_BASE_S = 60.0
SHUN_MOST_S = 3600.0
"""A peer is shunned for twice as long each time, up to this."""
DROPPED_PER_FAULT = 100
"""Messages left unread for lack of allowance."""
ACCOUNTS_MOST = 4096
"""Peers that are remembered; far more than have links."""
UNIT_BYTES = 256
SERVED_UNIT_BYTES = 1024
"""Of an answer, which costs less than what has to be verified."""


Offended = Callable[[PeerId, str], None]
"""Told of a peer that did what no honest one does, and what it was."""


def ignore(peer: PeerId, why: str) -> None:
    """Where nobody keeps accounts."""


@dataclass(frozen=True, slots=True)
class Allowance:
    units_s: float
    most: float
    """What can be saved up: a reconnecting peer tells all it holds at once."""


STRANGER = Allowance(2_000.0, 20_000.0)
STRANGERS = Allowance(4_000.0, 60_000.0)
"""Of all together."""
MEMBER = Allowance(20_000.0, 200_000.0)


@dataclass(slots=True)
class _Purse:
    allowance: Allowance
    units: float
    at_s: float

    def level(self, now_s: float) -> float:
        if now_s != self.at_s:
            allowance = self.allowance
            grown = self.units + (now_s - self.at_s) * allowance.units_s
            self.units, self.at_s = min(allowance.most, grown), now_s
        return self.units

    def ready_s(self, now_s: float) -> float:
        return now_s + max(0.0, -self.level(now_s)) / self.allowance.units_s


@dataclass(slots=True)
class _Account:
    purse: _Purse
    faults: float = 0.0
    fault_s: float = 0.0
    dropped: int = 0
    times_shunned: int = 0
    shunned_until_s: float = field(default=-inf)


class Conduct:
    def __init__(self, members: Iterable[PeerId]) -> None:
        self._members = frozenset(members)
        self._accounts: dict[PeerId, _Account] = {}
        self._strangers = _Purse(STRANGERS, STRANGERS.most, 0.0)

    def is_shunned(self, peer: PeerId, now_s: float) -> bool:
        account = self._accounts.get(peer)
        return account is not None and now_s < account.shunned_until_s

    def fault(self, peer: PeerId, now_s: float, *, weight: int = 1) -> bool:
        """True: that was one too many, and the peer is shunned from now on."""
        account = self._account(peer, now_s)
        forgiven = (now_s - account.fault_s) / FORGIVE_S
        account.faults, account.fault_s = max(0.0, account.faults - forgiven) + weight, now_s
        if account.faults < FAULTS_MOST:
            return False
        account.faults = 0.0
        shun_s = min(SHUN_MOST_S, SHUN_BASE_S * 2.0 ** min(account.times_shunned, 16))
        account.times_shunned += 1
        account.shunned_until_s = now_s + shun_s
        return True

    def shunned_until_s(self, peer: PeerId) -> float:
        account = self._accounts.get(peer)
        return -inf if account is None else account.shunned_until_s

    def allows(self, peer: PeerId, units: float, now_s: float) -> bool:
        """Takes the cost of a message from the peer's allowance; False if there is none left."""
        account = self._account(peer, now_s)
        purse, shared = account.purse, None if peer in self._members else self._strangers
        if purse.level(now_s) <= 0.0 or (shared and shared.level(now_s) <= 0.0):
            # What others used up is not this peer's doing.
            account.dropped += purse.units <= 0.0
            return False
        purse.units -= units
        if shared:
            shared.units -= units
        return True

    def charge(self, peer: PeerId, units: float, now_s: float) -> None:
        """Of what is done already; it may leave a debt."""
        account = self._account(peer, now_s)
        account.purse.level(now_s)
        account.purse.units -= units
        if peer not in self._members:
            self._strangers.level(now_s)
            self._strangers.units -= units

    def ready_s(self, peer: PeerId, now_s: float) -> float:
        """When the debts of a peer are paid."""
        return self._account(peer, now_s).purse.ready_s(now_s)

    def insists(self, peer: PeerId, now_s: float) -> bool:
        """Called for each message that is dropped. True: the peer goes on all the same, and is shunned."""
        account = self._account(peer, now_s)
        if account.dropped < DROPPED_PER_FAULT:
            return False
        account.dropped = 0
        return self.fault(peer, now_s)

    def _account(self, peer: PeerId, now_s: float) -> _Account:
        account = self._accounts.pop(peer, None)
        if account is None:
            allowance = MEMBER if peer in self._members else STRANGER
            account = _Account(_Purse(allowance, allowance.most, now_s), fault_s=now_s)
            if len(self._accounts) >= ACCOUNTS_MOST:
                del self._accounts[next(iter(self._accounts))]
        self._accounts[peer] = account  # the last one heard of is the last one forgotten
        return account


def cost_of(message: bytes) -> float:
    return 1.0 + len(message) / UNIT_BYTES


def cost_of_answer(answer: bytes) -> float:
    return 1.0 + len(answer) / SERVED_UNIT_BYTES
