import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.encoding import decode, encode
from p2pd.core.hello import PeerRecord
from p2pd.core.ids import DecisionId, NetworkId, PublicKey, RevisionId, TermId
from p2pd.core.messages import Beacon, Candidate, ChoiceKind, Choices, Report, Service
from p2pd.core.signed import Signed, message_of
from p2pd.core.talk import load_talk
from p2pd.core.votes import NO_ROUND, Certificate, Step, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import FULL, Verdict
from p2pd.errors import LocalError, RemoteError
from p2pd.wire.envelope import (
    KINDS,
    MAX_QUORUM_VOTES,
    check,
    check_certificate_signatures,
    dump,
    load,
    load_choices,
    seal,
)
from p2pd.wire.records import load_genesis, load_record, load_revision
from p2pd.wire.signatures import REMEMBERED_BYTES, _remembered, verify
from tests.core.builders import (
    REDUCERS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    all_present,
    beacon,
    choices,
    follow,
    leave,
    prevote,
    reduction,
    release,
    right_inputs,
    running,
    two_faces,
    update,
)

NETWORK = SETTING.genesis.network
DEALT = running(trainers=2, reducers=2)
CHOSEN = choices(DEALT, [update(DEALT, one) for one in TRAINERS[:2]], all_present(DEALT, 2, 2))
NEXT = follow(DEALT, CHOSEN)
VALUE = DecisionId(b"v" * 32)
QUORUM = tuple(prevote(2, one, VALUE) for one in VALIDATORS[:3])
assert NEXT.merged is not None

OBJECTS: dict[str, Signed[Any]] = {
    "vote": prevote(2, VALIDATORS[0], None),
    "proposal": seal(VALIDATORS[0], "proposal", SETTING.scope(2), Proposal(1, 0, b"c", QUORUM)),
    "update": update(DEALT, TRAINERS[0]),
    "beacon": beacon(2, TRAINERS[0]),
    "release": release(DEALT, TRAINERS[0]),
    "leave": leave(2, TRAINERS[0]),
    "reduction": reduction(DEALT, REDUCERS[0], NEXT.merged, right_inputs(NEXT)),
    "report": seal(VALIDATORS[0], "report", SETTING.scope(2), Report(NEXT.head, 1, 2, 3)),
    "evidence": seal(VALIDATORS[0], "evidence", SETTING.scope(2), two_faces(2, VALIDATORS[1])),
    "peer-record": seal(STRANGER, "peer-record", SETTING.scope(0), PeerRecord("h:1", ("viewer",), 9)),
}  # fmt: skip
LIES: dict[str, dict[str, Any]] = {
    "network": {"network": NetworkId(b"n" * 32)},
    "term": {"term": TermId(b"t" * 32)},
    "experiment": {"experiment": "another"},
    "revision": {"revision": RevisionId(b"r" * 32)},
    "height": {"height": 3},
}


def forged(signed: Signed[Any]) -> Signed[Any]:
    return replace(signed, signature=signed.signature[:-1] + bytes([signed.signature[-1] ^ 1]))


def test_i03_evidence_that_nobody_signed_is_refused() -> None:
    framed = two_faces(2, VALIDATORS[1])
    votes = (framed.votes[0], forged(framed.votes[1]))
    accused = seal(VALIDATORS[0], "evidence", SETTING.scope(2), replace(framed, votes=votes))
    with pytest.raises(RemoteError, match="false signature"):
        load(dump(accused), SETTING.genesis.network)


def test_every_kind_of_object_is_tried_here() -> None:
    assert OBJECTS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_comes_out_of_its_envelope_as_it_was_signed(kind: str) -> None:
    signed = OBJECTS[kind]
    assert load(dump(signed), NETWORK) == signed
    assert dump(load(dump(signed), NETWORK)) == dump(signed)


@pytest.mark.parametrize("field", LIES)
@pytest.mark.parametrize("kind", OBJECTS)
def test_i03_an_object_signed_for_one_place_is_refused_in_another(kind: str, field: str) -> None:
    signed = OBJECTS[kind]
    moved = replace(signed, scope=replace(signed.scope, **LIES[field]))
    # Its form alone would pass.
    content: Any = type(signed.content)
    assert decode(Signed[content], dump(moved)) == moved
    with pytest.raises(RemoteError, match=r"another network|false signature"):
        load(dump(moved), NETWORK)


@pytest.mark.parametrize("kind", OBJECTS)
def test_i03_an_object_is_its_authors(kind: str) -> None:
    signed = OBJECTS[kind]
    for lie in (
        replace(signed, author=REDUCERS[2].key),
        forged(signed),
        replace(signed, signature=b""),
        replace(signed, signature=signed.signature + b"\0"),
        replace(signed, author=PublicKey(b"short")),
    ):
        with pytest.raises(RemoteError, match="false signature"):
            load(dump(lie), NETWORK)


@pytest.mark.parametrize("kind", OBJECTS)
def test_i03_content_signed_under_another_kind_is_refused(kind: str) -> None:
    signed = OBJECTS[kind]
    for other in KINDS.keys() - {kind}:
        message = message_of(other, signed.scope, STRANGER.key, signed.content)
        lie = Signed(other, signed.scope, STRANGER.key, signed.content, STRANGER.sign(message))
        with pytest.raises(RemoteError, match="signed as"):
            check(lie, NETWORK)
        with pytest.raises(RemoteError):
            load(dump(lie), NETWORK)
        relabelled = replace(lie, kind=kind)
        with pytest.raises(RemoteError, match="false signature"):
            load(dump(relabelled), NETWORK)


def test_sealing_under_the_wrong_kind_is_a_mistake_of_ours() -> None:
    with pytest.raises(LocalError, match="Beacon is not the content of a vote"):
        seal(STRANGER, "vote", SETTING.scope(1), Beacon(Service.TRAIN))


def test_i03_a_signature_of_another_protocol_version_is_false() -> None:
    signed = OBJECTS["beacon"]
    message = encode(("p2pd", 2, "beacon", signed.scope, STRANGER.key, signed.content))
    lie = replace(signed, author=STRANGER.key, signature=STRANGER.sign(message))
    with pytest.raises(RemoteError, match="false signature"):
        load(dump(lie), NETWORK)


def with_false(votes: tuple[Signed[Vote], ...], place: int) -> tuple[Signed[Vote], ...]:
    return (*votes[:place], forged(votes[place]), *votes[place + 1 :])


@pytest.mark.parametrize("place", range(3))
def test_i03_a_false_vote_in_a_proposal_is_found(place: int) -> None:
    content = Proposal(1, 0, b"c", with_false(QUORUM, place))
    lie = seal(VALIDATORS[0], "proposal", SETTING.scope(2), content)
    assert verify(lie.author, lie.message, lie.signature)
    with pytest.raises(RemoteError, match="false signature on a vote"):
        load(dump(lie), NETWORK)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("step", ["precommits", "prevotes"])
def test_i03_a_false_vote_in_a_certificate_is_found(step: str, place: int) -> None:
    scope = SETTING.scope(2)
    vote = Vote(Step.PRECOMMIT, 0, VALUE, NO_ROUND, ())
    precommits = tuple(seal(one, "vote", scope, vote) for one in VALIDATORS[:3])
    sound = Certificate(VALUE, 0, precommits, QUORUM)
    check_certificate_signatures(sound, NETWORK)
    changes: dict[str, Any] = {step: with_false(getattr(sound, step), place)}
    lie = replace(sound, **changes)
    with pytest.raises(RemoteError, match="false signature on a vote"):
        check_certificate_signatures(lie, NETWORK)


def proposal_by(who: Any, choices: bytes, *quorum: Signed[Vote]) -> Signed[Proposal]:
    return seal(
        who, "proposal", SETTING.scope(2), Proposal(1, 0 if quorum else -1, choices, quorum)
    )


GROUND = prevote(2, VALIDATORS[3], None)
FACES = two_faces(1, VALIDATORS[1])
PROPOSALS = Evidence(
    (), (proposal_by(VALIDATORS[2], b"a", *QUORUM), proposal_by(VALIDATORS[2], b"b"))
)
FILLED = replace(
    CHOSEN,
    reductions=(OBJECTS["reduction"],),
    evidence=(FACES, PROPOSALS),
    grounds=(GROUND,),
)  # fmt: skip


def candidate(signed: Signed[Any]) -> Candidate:
    return Candidate(signed, Verdict.ACCEPTED, FULL)


NESTED_LIES: dict[str, Choices] = {
    "update": replace(FILLED, cohort=(FILLED.cohort[0], candidate(forged(FILLED.cohort[1].update)))),
    "beacon": replace(FILLED, presence=(*FILLED.presence[:-1], forged(FILLED.presence[-1]))),
    "reduction": replace(FILLED, reductions=(forged(OBJECTS["reduction"]),)),
    "ground": replace(FILLED, grounds=(GROUND, forged(GROUND))),
    "accusing vote": replace(FILLED, evidence=(Evidence(with_false(FACES.votes, 1), ()),)),
    "accusing proposal": replace(
        FILLED, evidence=(Evidence((), (PROPOSALS.proposals[0], forged(PROPOSALS.proposals[1]))),)
    ),
    "vote in an accusing proposal": replace(
        FILLED,
        evidence=(
            Evidence(
                (),
                (
                    PROPOSALS.proposals[1],
                    proposal_by(VALIDATORS[2], b"a", *with_false(QUORUM, 2)),
                ),
            ),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NESTED_LIES)
def test_i03_a_false_signature_anywhere_in_choices_is_found(what: str) -> None:
    assert load_choices(encode(FILLED), NETWORK) == FILLED
    with pytest.raises(RemoteError, match="false signature"):
        load_choices(encode(NESTED_LIES[what]), NETWORK)


@pytest.mark.parametrize("what", ["cohort", "presence", "reductions", "grounds"])
def test_i03_an_object_nested_under_a_foreign_kind_is_found(what: str) -> None:
    inner: Any = getattr(FILLED, what)[0]
    signed = inner.update if what == "cohort" else inner
    message = message_of("other", signed.scope, STRANGER.key, signed.content)
    lie: Any = Signed("other", signed.scope, STRANGER.key, signed.content, STRANGER.sign(message))
    changes: dict[str, Any] = {what: (candidate(lie) if what == "cohort" else lie,)}
    with pytest.raises(RemoteError, match="signed as 'other'"):
        load_choices(encode(replace(FILLED, **changes)), NETWORK)


@pytest.mark.parametrize("kind", KINDS)
def test_i08_an_object_too_large_for_its_kind_is_refused_undecoded(kind: str) -> None:
    data = b"\x85" + encode(kind) + b"\x9a\x00\x03\x00\x00" + bytes(KINDS[kind][1])
    tracemalloc.start()
    with pytest.raises(RemoteError, match="exceeds the limit"):
        load(data, NETWORK)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000


@pytest.mark.parametrize(
    "data",
    [b"", b"\x85", b"\x85\x64vot", b"\x85\x65votes", b"\x84\x64vote", b"\x85\x44vote", b"\x85\x61\xff"],
)  # fmt: skip
def test_an_unknown_kind_is_refused_by_its_first_bytes(data: bytes) -> None:
    with pytest.raises(RemoteError, match=r"unknown kind"):
        load(data, NETWORK)


def test_i09_more_votes_than_a_quorum_can_need_are_not_verified() -> None:
    votes = (forged(QUORUM[0]),) * (MAX_QUORUM_VOTES + 1)
    lie = seal(STRANGER, "proposal", SETTING.scope(2), Proposal(1, 0, b"", votes))
    with pytest.raises(RemoteError, match="votes, the limit is"):
        load(dump(lie), NETWORK)
    with pytest.raises(RemoteError, match="votes, the limit is"):
        check_certificate_signatures(Certificate(VALUE, 0, votes, ()), NETWORK)
    crowd = replace(FILLED, presence=(forged(FILLED.presence[0]),) * 4200)
    with pytest.raises(RemoteError, match="objects in choices, the limit is"):
        load_choices(encode(crowd), NETWORK)


def test_i09_a_long_message_is_not_kept_to_remember_its_signature() -> None:
    short, long = bytes(REMEMBERED_BYTES), bytes(REMEMBERED_BYTES + 1)
    _remembered.cache_clear()  # full, it would forget one for each that it remembers
    for message in (short, long):
        signature = STRANGER.sign(message)
        assert verify(STRANGER.key, message, signature)
        assert verify(STRANGER.key, message, signature)
        assert not verify(STRANGER.key, message + b"\0", signature)
    assert _remembered.cache_info().currsize == 1


def read_all(data: bytes) -> None:
    """Every reader of bytes from outside: a value, or RemoteError."""
    readers: list[Any] = [
        lambda: load(data, NETWORK),
        lambda: load_choices(data, NETWORK),
        lambda: load_record(data, NETWORK),
        lambda: load_genesis(data),
        lambda: load_revision(data, SETTING.genesis),
        lambda: load_talk(data),
    ]
    said = []
    for reader in readers:
        try:
            reader()
        except RemoteError as error:
            said.append(str(error))
    assert not any("\n" in line for line in said)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_i08_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_all(data)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(OBJECTS)), st.data())
def test_i08_any_changed_envelope_is_refused(kind: str, data: st.DataObject) -> None:
    envelope = bytearray(dump(OBJECTS[kind]))
    place = data.draw(st.integers(0, len(envelope) - 1))
    envelope[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RemoteError):
        load(bytes(envelope), NETWORK)
    read_all(bytes(envelope))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_i08_any_changed_choices_are_refused_or_other_choices(data: st.DataObject) -> None:
    sound = encode(FILLED)
    place = data.draw(st.integers(0, len(sound) - 1))
    changed = bytearray(sound)
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        other = load_choices(bytes(changed), NETWORK)
    except RemoteError:
        return
    # What is signed by nobody but the proposer: the kind and the verdicts.
    assert replace(
        other,
        kind=ChoiceKind.WINDOW,
        cohort=tuple(candidate(one.update) for one in other.cohort),
    ) == FILLED  # fmt: skip


def test_i03_what_was_opened_before_is_refused_elsewhere_and_with_another_signature() -> None:
    vote = OBJECTS["vote"]
    first = load(dump(vote), NETWORK)
    assert load(dump(vote), NETWORK) is first
    for _ in range(2):
        with pytest.raises(RemoteError, match="another network"):
            load(dump(vote), NetworkId(bytes(32)))
        with pytest.raises(RemoteError, match="false signature"):
            load(dump(forged(vote)), NETWORK)
    with pytest.raises(RemoteError, match="another network"):
        load_choices(encode(CHOSEN), NetworkId(bytes(32)))
    assert load_choices(encode(CHOSEN), NETWORK) is load_choices(encode(CHOSEN), NETWORK)
