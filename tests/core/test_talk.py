from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, RevisionId
from p2pd.core.talk import GetChunk, GetPeers, Inventory, dump_talk, load_talk
from p2pd.errors import RemoteError
from tests.core.strategies import TALKS, any_of

TAGS = (1, 2, 3, 4, 5, 6, 16, 17, 18, 19, 20, 21, 22, 23, 24)


@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("kind", TALKS)
@given(st.data())
def test_what_is_said_is_heard(kind: Any, data: st.DataObject) -> None:
    message = data.draw(any_of(kind))
    said = dump_talk(message)
    assert said[0] in TAGS
    assert load_talk(said) == message


def test_each_kind_of_message_has_a_tag_of_its_own() -> None:
    assert len(TALKS) == len(TAGS)


@pytest.mark.parametrize("tag", sorted(set(range(256)) - set(TAGS)))
def test_an_unknown_tag_is_refused(tag: int) -> None:
    with pytest.raises(RemoteError, match=f"unknown message tag {tag:02x}"):
        load_talk(bytes([tag]) + encode(GetPeers(3)))


def test_a_message_under_a_foreign_tag_or_none_is_refused() -> None:
    body = encode(Inventory(RevisionId(bytes(32)), 4, ()))
    for tag in set(TAGS) - {3}:
        with pytest.raises(RemoteError, match="must be"):
            load_talk(bytes([tag]) + body)
    with pytest.raises(RemoteError, match="unknown message tag none"):
        load_talk(b"")
    with pytest.raises(RemoteError, match="ends early"):
        load_talk(b"\x10")


def test_i08_a_message_above_its_limit_is_refused() -> None:
    said = dump_talk(GetChunk(ArtifactId(bytes(32)), 5))
    assert load_talk(said, limit_bytes=len(said) - 1)
    with pytest.raises(RemoteError, match="exceeds the limit"):
        load_talk(said, limit_bytes=len(said) - 2)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TAGS), st.binary(max_size=80))
def test_i08_any_bytes_are_a_message_or_refused(tag: int, body: bytes) -> None:
    try:
        message = load_talk(bytes([tag]) + body)
    except RemoteError:
        return
    assert dump_talk(message) == bytes([tag]) + body


def test_a_request_of_a_wrong_type_is_refused_by_its_place() -> None:
    said = bytes([3]) + encode((RevisionId(bytes(32)), 4, (1,)))
    with pytest.raises(RemoteError, match=r"Inventory.objects\[0\] must be bytes, got int"):
        load_talk(said)
    assert load_talk(dump_talk(Inventory(RevisionId(b"r"), 4, ()))).__class__ is Inventory
