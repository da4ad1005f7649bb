"""Effects that are joined before they are carried out."""

from p2pd.core.validator.events import Effect, FetchOuter, Remember, remember_once
from tests.core.builders import GENESIS

FIRST, SECOND = FetchOuter(GENESIS.head), FetchOuter(GENESIS.head)


def test_what_is_remembered_twice_in_a_row_is_stored_once_before_all_that_follows() -> None:
    effects: list[Effect] = [Remember(1, b"one"), FIRST, Remember(1, b"both"), SECOND]
    assert remember_once(effects) == [Remember(1, b"both"), FIRST, SECOND]


def test_what_stood_before_anything_was_remembered_stays_there() -> None:
    effects: list[Effect] = [FIRST, Remember(1, b"one"), SECOND]
    assert remember_once(effects) == effects


def test_each_height_is_remembered_for_itself() -> None:
    effects: list[Effect] = [Remember(1, b"a"), Remember(2, b"b"), Remember(1, b"c")]
    assert remember_once(effects) == [Remember(1, b"c"), Remember(2, b"b")]
