"""A validator's place in its revision, and how it accuses those that lie."""

from dataclasses import dataclass

from p2pd.core.derive import Setting
from p2pd.core.ids import PublicKey
from p2pd.core.validator.desk import OpenChoices
from p2pd.core.validator.events import Publish
from p2pd.core.voting.events import Defence
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.rules import Sign
from p2pd.core.window import Window


@dataclass(frozen=True, slots=True)
class Seat:
    """What a validator brings to its revision."""

    setting: Setting
    me: PublicKey
    sign: Sign
    open_choices: OpenChoices


def hear_accusation(seat: Seat, window: Window, evidence: Evidence, now_s: float) -> bool:
    """True if it is news here."""
    if Defence.EVIDENCE in seat.setting.defences_off:
        return False
    return window.add_evidence(evidence, now_s)


def accuse(seat: Seat, window: Window, evidence: Evidence, now_s: float) -> list[Publish]:
    """Tells the others what this validator found, and so keeps it over a crash, until a decision includes it."""
    members = seat.setting.members(window.previous.state.suspended)
    if not hear_accusation(seat, window, evidence, now_s) or seat.me not in members.weights:
        return []
    scope = seat.setting.scope(window.height)
    return [Publish(seat.sign("evidence", scope, evidence))]
