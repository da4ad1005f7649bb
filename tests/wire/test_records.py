from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.decision import Record
from p2pd.core.encoding import encode
from p2pd.core.genesis import Endorsement, Genesis, SignedGenesis
from p2pd.core.governance import SignedGovernance
from p2pd.core.ids import NetworkId
from p2pd.core.revision import SignedRevision
from p2pd.errors import RemoteError
from p2pd.wire.envelope import MAX_ENDORSEMENTS, load_choices
from p2pd.wire.records import (
    dump_record,
    load_genesis,
    load_governance,
    load_record,
    load_revision,
    seal_genesis,
    seal_revision,
)
from tests.cli.chains import key
from tests.core.builders import (
    AUTHORITY,
    GENESIS,
    SETTING,
    STRANGER,
    choices,
    extension,
    genesis,
    record,
    revision,
    running,
)

THREE = tuple(key(f"authority {n}") for n in range(3))
SHARED = genesis(authority=tuple(one.key for one in THREE), threshold=2)
REVISION = revision(SHARED)
NETWORK = SETTING.genesis.network
DECISION = running()


def signed_by(*signers: Any) -> SignedGenesis:
    return seal_genesis(SHARED, signers)


def test_a_genesis_signed_by_its_threshold_is_taken() -> None:
    for signers in (THREE, THREE[:2], THREE[1:]):
        assert load_genesis(encode(signed_by(*signers))).genesis == SHARED


@pytest.mark.parametrize(
    "signed",
    [
        signed_by(),
        signed_by(THREE[0]),
        signed_by(THREE[0], THREE[0], THREE[0]),
        signed_by(THREE[0], STRANGER),
        SignedGenesis(replace(SHARED, name="other"), signed_by(*THREE).endorsements),
        SignedGenesis(replace(SHARED, quorum=4), signed_by(*THREE).endorsements),
    ],
    ids=["none", "one", "one three times", "a stranger", "other name", "other quorum"],
)
def test_i03_a_genesis_without_its_threshold_is_refused(signed: SignedGenesis) -> None:
    with pytest.raises(RemoteError, match="valid authority signatures, 2 are needed"):
        load_genesis(encode(signed))


def test_i03_a_genesis_that_names_its_own_authority_is_another_network() -> None:
    usurped = replace(SHARED, authority=(STRANGER.key,), threshold=1)
    loaded = load_genesis(encode(seal_genesis(usurped, (STRANGER,))))
    assert loaded.genesis.network != SHARED.network


def test_i09_no_more_endorsements_are_verified_than_there_are_authorities() -> None:
    good = signed_by(*THREE).endorsements
    junk = (replace(good[0], signature=bytes(64)),) * 1000
    assert load_genesis(encode(SignedGenesis(SHARED, (*good, *junk)))).genesis == SHARED
    with pytest.raises(RemoteError, match="0 valid"):
        load_genesis(encode(SignedGenesis(SHARED, (*junk, *good))))


def test_a_revision_signed_by_the_threshold_is_taken() -> None:
    signed = seal_revision(REVISION, THREE[1:])
    assert load_revision(encode(signed), SHARED) == signed


def test_i03_a_revision_is_of_its_network_and_by_its_authority() -> None:
    other: Genesis = genesis(name="other")
    with pytest.raises(RemoteError, match="the revision is of network"):
        load_revision(encode(seal_revision(revision(other), THREE)), SHARED)
    for signers in ((), (THREE[0],), (THREE[0], AUTHORITY)):
        with pytest.raises(RemoteError, match="valid authority signatures"):
            load_revision(encode(seal_revision(REVISION, signers)), SHARED)
    changed = SignedRevision(
        replace(REVISION, experiment="more"), seal_revision(REVISION, THREE).endorsements
    )
    with pytest.raises(RemoteError, match="0 valid"):
        load_revision(encode(changed), SHARED)


def test_i03_a_genesis_signature_is_none_on_a_revision() -> None:
    lie = SignedRevision(REVISION, signed_by(*THREE).endorsements)
    with pytest.raises(RemoteError, match="0 valid"):
        load_revision(encode(lie), SHARED)


def test_a_record_is_read_back_and_the_genesis_has_no_certificate() -> None:
    for one in (record(DECISION), Record(GENESIS, None)):
        assert load_record(dump_record(one), SETTING.genesis.network) == one


def test_i03_a_record_of_another_network_is_refused() -> None:
    with pytest.raises(RemoteError, match="another network"):
        load_record(dump_record(record(DECISION)), NetworkId(bytes(32)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_i03_a_changed_genesis_or_revision_is_refused(data: st.DataObject) -> None:
    born = signed_by(*THREE[:2])
    sealed = seal_revision(REVISION, THREE[:2])
    for sound, read in (
        (encode(born), load_genesis),
        (encode(sealed), lambda changed: load_revision(changed, SHARED)),
    ):
        changed = bytearray(sound)
        place = data.draw(st.integers(0, len(sound) - 1))
        changed[place] ^= data.draw(st.integers(1, 255))
        with pytest.raises(RemoteError):
            read(bytes(changed))


def test_a_governance_record_is_taken_as_it_was_sealed() -> None:
    for signers in ((), (AUTHORITY,), (AUTHORITY, STRANGER)):
        signed = extension(signers=signers)
        assert load_governance(encode(signed), NETWORK) == signed
        assert len(signed.endorsements) == len(signers)


def test_a_false_endorsement_is_found_alone_and_in_choices() -> None:
    sound = extension()
    (one,) = sound.endorsements
    for false in (
        SignedGovernance(sound.record, (Endorsement(one.key, bytes(64)),)),
        SignedGovernance(replace(sound.record, number=2), sound.endorsements),
        SignedGovernance(sound.record, (one, Endorsement(STRANGER.key, one.signature))),
    ):
        with pytest.raises(RemoteError, match="false signature on a governance record"):
            load_governance(encode(false), NETWORK)
        with pytest.raises(RemoteError, match="false signature on a governance record"):
            load_choices(encode(choices(GENESIS, governance=(false,))), NETWORK)
    assert load_choices(encode(choices(GENESIS, governance=(sound,))), NETWORK).governance == (
        sound,
    )


def test_a_governance_record_of_another_network_or_with_too_many_endorsements_is_refused() -> None:
    foreign = extension(network=NetworkId(bytes(32)))
    with pytest.raises(RemoteError, match="of another network"):
        load_governance(encode(foreign), NETWORK)
    sound = extension()
    many = SignedGovernance(sound.record, sound.endorsements * (MAX_ENDORSEMENTS + 1))
    with pytest.raises(RemoteError, match="257 endorsements, the limit is 256"):
        load_governance(encode(many), NETWORK)
