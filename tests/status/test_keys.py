from collections.abc import Callable

import pytest

from p2pd.status.keys import ESCAPE, KeyReader, keys_in

ARROWS_AND_THE_LIKE = (
    b"\x1b[A",
    b"\x1b[B",
    b"\x1bOC",
    b"\x1b[1;5D",
    b"\x1b[3~",
    b"\x1b[15~",
    b"\x1bOP",
    b"\x1b[[A",
    b"\x1bq",
    b"\x1b[200~",
    b"\xc3\xa9",
    b"\t\r\n\x7f\x04",
)


def reader(*reads: bytes) -> Callable[[float], str]:
    left = list(reads)
    return KeyReader(lambda _: left.pop(0) if left else b"").key


@pytest.mark.parametrize("sent", ARROWS_AND_THE_LIKE)
def test_what_is_no_character_is_no_key(sent: bytes) -> None:
    assert keys_in(sent) == []
    assert keys_in(b"?" + sent + b"q") == ["?", "q"]


@pytest.mark.parametrize("sent", [b"\x1b[A", b"\x1bOC", b"\x1b[1;5D", b"\x1b[[A"])
def test_an_arrow_that_comes_in_parts_is_no_escape(sent: bytes) -> None:
    for cut in range(1, len(sent)):
        key = reader(sent[:cut], sent[cut:])
        assert [key(1.0), key(1.0)] == ["", ""]


def test_escape_alone_is_a_key() -> None:
    key = reader(b"\x1b", b"", b"q")
    assert [key(1.0), key(1.0), key(1.0)] == [ESCAPE, "q", ""]


def test_escape_twice_is_two_keys() -> None:
    assert keys_in(b"\x1b\x1b") == [ESCAPE, ESCAPE]


def test_keys_that_come_together_are_told_one_by_one() -> None:
    key = reader(b"?x\x1b[Aq")
    assert [key(1.0) for _ in range(4)] == ["?", "x", "q", ""]


def test_a_sequence_without_an_end_is_given_up() -> None:
    assert keys_in(b"?\x1b[1;") == ["?"]
