from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from p2pd.core.encoding import encode
from p2pd.core.hello import Hello
from p2pd.core.ids import NetworkId, short
from p2pd.errors import RemoteError
from p2pd.io.overlay.framing import HELLO_BYTES_MAX, Deframer, check_hello, encode_hello, frame

LIMIT_BYTES = 5000
MINE = Hello(1, NetworkId(b"n" * 32), ("trainer",), "192.0.2.1:7000", "test")


@given(st.lists(st.binary(max_size=200)), st.lists(st.integers(1, 50), min_size=1))
def test_messages_come_out_as_they_went_in_however_they_are_cut(
    messages: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(map(frame, messages))
    deframer = Deframer(LIMIT_BYTES)
    found: list[bytes] = []
    while data:
        for cut in cuts:
            found += deframer.feed(data[:cut])
            data = data[cut:]
    assert found == messages


@given(st.lists(st.binary(max_size=100), max_size=20))
@example([b"\xff\xff\xff\xff"])
def test_i08_any_bytes_give_messages_or_a_remote_error(chunks: list[bytes]) -> None:
    deframer = Deframer(LIMIT_BYTES)
    try:
        for chunk in chunks:
            for message in deframer.feed(chunk):
                assert len(message) <= LIMIT_BYTES
    except RemoteError:
        return


def test_i08_a_length_beyond_the_limit_is_refused_before_the_message_comes() -> None:
    deframer = Deframer(LIMIT_BYTES)
    deframer.feed(frame(b"hello"))
    assert deframer.feed(frame(bytes(LIMIT_BYTES))) == [bytes(LIMIT_BYTES)]
    with pytest.raises(RemoteError, match="5001"):
        deframer.feed((LIMIT_BYTES + 1).to_bytes(4))


def test_i09_a_stranger_may_send_no_more_than_a_hello() -> None:
    with pytest.raises(RemoteError, match=str(HELLO_BYTES_MAX)):
        Deframer(LIMIT_BYTES).feed((HELLO_BYTES_MAX + 1).to_bytes(4))


def test_a_hello_is_read_back() -> None:
    theirs = replace(MINE, roles=("validator", "viewer"), address="")
    assert check_hello(encode_hello(theirs), MINE) == theirs


def test_another_version_is_refused_whatever_its_hello_looks_like() -> None:
    with pytest.raises(RemoteError, match=r"version 2 .* 1\b"):
        check_hello(encode((2, ("a", "different", ("hello",)))), MINE)


def test_another_network_is_refused_by_both_names() -> None:
    theirs = replace(MINE, network=NetworkId(b"m" * 32))
    with pytest.raises(RemoteError, match=f"{short(theirs.network)}.*{short(MINE.network)}"):
        check_hello(encode_hello(theirs), MINE)


@given(st.binary(max_size=200))
@example(encode(()))
@example(encode((True,)))
@example(encode((1, 2)))
def test_i08_any_bytes_are_a_hello_or_a_remote_error(data: bytes) -> None:
    try:
        found = check_hello(data, MINE)
    except RemoteError:
        return
    assert encode_hello(found) == data
