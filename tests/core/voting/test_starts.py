"""From whatever an asynchronous time left behind, a height ends once messages arrive, whoever is missing.

The full search, of two rounds, is `make search`; its figures are in docs/decision-protocol.md.
"""

from tests.core.voting.search import NIL
from tests.core.voting.starts import JUDGING_LOCKS, Figures, Starts

NOBODY_LIKES_BOTH = 8
"""Of the 27 ways in which three can like one decision or both."""


def test_i02_every_start_of_three_ends_where_the_model_says() -> None:
    figures = Starts(count=3, quorum=2, liars=0, crashed=1, rounds=1).figures()
    assert figures == Figures(states=3879, starts=3201, stuck_before_undecided=66, stuck=0)


def test_without_the_judgement_rule_some_starts_of_three_never_end() -> None:
    starts = Starts(count=3, quorum=2, liars=0, crashed=1, rounds=1, off=JUDGING_LOCKS)
    figures = starts.figures()
    assert figures == Figures(states=3447, starts=1905, stuck_before_undecided=282, stuck=144)


def test_i02_starts_of_four_end_after_a_liar_fell_silent() -> None:
    starts = Starts(count=4, quorum=3, liars=1, crashed=0, rounds=1)
    divided = [opinions for opinions in starts.opinions() if NIL not in opinions]
    assert len(divided) == NOBODY_LIKES_BOTH
    figures = starts.figures(divided)
    assert figures.stuck == 0
    assert figures.starts > 0
