"""What tests of the validator machine begin with: a running window, one validator or all four, and their words."""

from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.encoding import encode
from p2pd.core.ids import DecisionId
from p2pd.core.messages import Choices
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Reason, Step, Vote
from p2pd.core.voting.proposals import Proposal
from p2pd.wire.envelope import seal
from tests.core.builders import (
    SETTING,
    TRAINERS,
    VALIDATORS,
    running,
    update,
)
from tests.core.validator.council import Chair, Council

FIRST = running(trainers=2)
"""D(1), with a lease for each of two trainers."""
DEADLINE_S = SETTING.revision.schedule.deadline_ms / 1000


def updates(previous: Decision = FIRST) -> list[Signed[Any]]:
    return [update(previous, TRAINERS[n]) for n in range(2)]


def council(previous: Decision = FIRST, **more: Any) -> Council:
    made = Council(previous, **more)
    made.start()
    return made


def chair(who: int = 0, previous: Decision = FIRST) -> Chair:
    """One validator that has listened, and hears nobody else yet."""
    made = Chair(VALIDATORS[who], SETTING, previous)
    made.start()
    made.pass_time(2.0)
    return made


def proposer(height: int, round_: int = 0) -> int:
    return (height + round_) % 4


def a_vote(who: int, step: Step, value: DecisionId | None, round_: int = 0, **more: Any) -> Any:
    content = Vote(step, round_, value, more.get("just", NO_ROUND), more.get("reasons", ()))
    return seal(VALIDATORS[who], "vote", SETTING.scope(2), content)


def a_proposal(chosen: Choices, round_: int = 0, previous: Decision = FIRST) -> Signed[Proposal]:
    height = previous.height + 1
    content = Proposal(round_, NO_ROUND, encode(chosen), ())
    signer = VALIDATORS[proposer(height, round_)]
    return seal(signer, "proposal", SETTING.scope(height), content)


def reasons(one: Chair) -> list[tuple[Reason, ...]]:
    return [
        vote.reasons
        for vote in one.sent("vote")
        if vote.step is Step.PREVOTE and vote.value is None
    ]
