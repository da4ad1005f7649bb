from dataclasses import fields, replace
from typing import Any

import pytest

from p2pd.core.encoding import decode
from p2pd.core.ids import NetworkId, RevisionId, TermId, digest, peer_id, short
from p2pd.core.signed import Scope, message_of
from tests.core.builders import SETTING, STRANGER, TRAINERS, beacon, prevote

SIGNED = beacon(2, TRAINERS[0])
MOVED: dict[str, Any] = {
    "network": NetworkId(bytes(32)),
    "term": TermId(bytes(32)),
    "experiment": "other",
    "revision": RevisionId(bytes(32)),
    "height": 3,
}


def test_i03_a_signature_is_over_everything_that_gives_meaning() -> None:
    assert MOVED.keys() == {field.name for field in fields(Scope)}
    scopes = [replace(SIGNED.scope, **{name: value}) for name, value in MOVED.items()]
    another = prevote(2, TRAINERS[0], None).content
    messages = {
        SIGNED.message,
        *(replace(SIGNED, scope=scope).message for scope in scopes),
        replace(SIGNED, kind="vote").message,
        replace(SIGNED, author=STRANGER.key).message,
        message_of(SIGNED.kind, SIGNED.scope, SIGNED.author, another),
    }
    assert len(messages) == len(scopes) + 4


def test_i03_the_protocol_and_its_version_are_in_what_is_signed() -> None:
    kinds: Any = tuple[str, int, str, Scope, bytes, tuple[int]]
    first: Any = decode(kinds, SIGNED.message)
    assert first == ("p2pd", 1, "beacon", SIGNED.scope, SIGNED.author, (1,))
    assert message_of("beacon", SIGNED.scope, SIGNED.author, SIGNED.content) == SIGNED.message


def test_the_id_leaves_the_signature_out_and_the_signer_is_the_authors_peer() -> None:
    assert replace(SIGNED, signature=bytes(64)).id == SIGNED.id
    assert replace(SIGNED, author=STRANGER.key).id != SIGNED.id
    assert SIGNED.signer == peer_id(SIGNED.author) == TRAINERS[0].peer


def test_names_of_different_things_never_meet() -> None:
    assert digest("vote", b"x") != digest("proposal", b"x")
    # The zero byte keeps a kind from flowing into its data.
    assert digest("a", b"b") != digest("ab", b"")
    assert short(SETTING.genesis.network) == SETTING.genesis.network.hex()[:10]
    with pytest.raises(AttributeError):
        SIGNED.kind = "vote"  # type: ignore[misc]
