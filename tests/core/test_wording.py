import pytest

from p2pd.core.wording import counted, size, tallied
from p2pd.errors import printable


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 fleets"), (1, "1 fleet"), (2, "2 fleets"), (12_000, "12000 fleets")]
)
def test_one_is_said_in_the_singular_and_all_else_in_the_plural(count: int, said: str) -> None:
    assert counted(count, "fleet") == said


def test_equal_names_are_counted_and_stay_in_their_order() -> None:
    assert tallied(()) == ""
    assert tallied(("cuda:0", "cpu", "cpu")) == "cuda:0, 2 x cpu"


def test_large_numbers_may_be_grouped() -> None:
    assert counted(100_000, "request", ",") == "100,000 requests"
    assert counted(1, "request", ",") == "1 request"


def test_foreign_words_become_one_line_that_moves_no_cursor_and_can_be_encoded() -> None:
    assert printable("größer: 7 %") == "größer: 7 %"
    said = printable("a\n\x1b[31mred\u202e\udcff")
    assert said == r"a\n\x1b[31mred\u202e\udcff"
    assert said.encode().decode() == said


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_960, "10 kB"),
        (999_600, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (7_000_000_000_000, "7.0 TB"),
    ],
)
def test_a_size_is_short(count: int, said: str) -> None:
    assert size(count) == said
