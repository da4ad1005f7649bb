import pytest

from p2pd.errors import ProblemsError, StoreError, UsageError, lines_of


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/a\nb: gone", "/a\\nb: gone"),
        ("/a\x1b[2J\r\u2028\udcff: gone", "/a\\x1b[2J\\r\\u2028\\udcff: gone"),
        ("key must be a word, got 'no word'", "key must be a word, got 'no word'"),
        (f"no such command '{'x' * 5000}': see", f"no such command '{'x' * 80}...': see"),
        (f'got "{"it is so " * 50}": see', f'got "{("it is so " * 50)[:80]}...": see'),
        (f"{'/x' * 5000}: gone", f"{'/x' * 40}...: gone"),
        (f"{'/x' * 1000}: gone", f"{'/x' * 1000}: gone"),
        (f"p2pd's own {'words ' * 30} and others'", f"p2pd's own {'words ' * 30} and others'"),
    ],
)
def test_an_error_is_one_line_of_bounded_quotations(said: str, shown: str) -> None:
    assert lines_of(StoreError(said)) == [shown]


def test_several_problems_are_a_line_each() -> None:
    assert lines_of(ProblemsError(["a\nb", "c"])) == ["a\\nb", "c"]
    assert issubclass(ProblemsError, UsageError)
