"""Governance objects and decision records: bytes to verified values."""

from functools import lru_cache

from p2pd.core.decision import Record
from p2pd.core.encoding import decode
from p2pd.core.genesis import Endorsement, Genesis, SignedGenesis
from p2pd.core.governance import GovernanceRecord, SignedGovernance
from p2pd.core.ids import NetworkId, PublicKey
from p2pd.core.revision import Revision, SignedRevision
from p2pd.errors import RemoteError
from p2pd.wire.envelope import Signer, check_certificate_signatures, check_governance
from p2pd.wire.signatures import verify


class OtherNetworkError(RemoteError):
    """Well-formed, and of another network."""


MAX_RECORD_BYTES = 16 * 2**20
MAX_GOVERNANCE_BYTES = 2**16
REMEMBERED = 16
REMEMBERED_BYTES = 64 * 1024
"""The last records are read again and again: to serve them, to pin and unpin heads."""


def seal_genesis(genesis: Genesis, signers: tuple[Signer, ...]) -> SignedGenesis:
    return SignedGenesis(genesis, tuple(_endorse(signer, genesis.network) for signer in signers))


def seal_revision(revision: Revision, signers: tuple[Signer, ...]) -> SignedRevision:
    return SignedRevision(revision, tuple(_endorse(signer, revision.id) for signer in signers))


def seal_governance(
    record: GovernanceRecord, signers: tuple[Signer, ...], others: tuple[Endorsement, ...] = ()
) -> SignedGovernance:
    """others: endorsements that it has already."""
    by_key = {one.key: one for one in (*others, *(_endorse(one, record.id) for one in signers))}
    return SignedGovernance(record, tuple(by_key[key] for key in sorted(by_key)))


def load_governance(data: bytes, network: NetworkId) -> SignedGovernance:
    """With every endorsement verified; whether they are the authority's, and enough, is for core to say.

    Raises:
        RemoteError: malformed, of another network, or a false signature.
    """
    signed = decode(SignedGovernance, data, limit_bytes=MAX_GOVERNANCE_BYTES)
    if signed.record.network != network:
        raise OtherNetworkError(
            f"governance record of another network {signed.record.network.hex()[:10]}"
        )
    check_governance(signed, network)
    return signed


def _endorse(signer: Signer, name: bytes) -> Endorsement:
    return Endorsement(signer.key, signer.sign(name))


def load_genesis(data: bytes) -> SignedGenesis:
    """Raises RemoteError: malformed, or not signed by the threshold of its own authority."""
    signed = decode(SignedGenesis, data, limit_bytes=2**20)
    genesis = signed.genesis
    _check_endorsements(genesis, signed.endorsements, genesis.network, "genesis")
    return signed


def load_revision(data: bytes, genesis: Genesis) -> SignedRevision:
    """Raises RemoteError: malformed, of another network, or not signed by the authority's threshold."""
    signed = decode(SignedRevision, data)
    if signed.revision.network != genesis.network:
        raise OtherNetworkError(
            f"the revision is of network {signed.revision.network.hex()[:10]}, the genesis of "
            f"{genesis.network.hex()[:10]}"
        )
    _check_endorsements(genesis, signed.endorsements, signed.revision.id, "revision")
    return signed


def _check_endorsements(
    genesis: Genesis, endorsements: tuple[Endorsement, ...], name: bytes, what: str
) -> None:
    valid: set[PublicKey] = {
        endorsement.key
        for endorsement in endorsements[: len(genesis.authority)]
        if endorsement.key in genesis.authority
        and verify(endorsement.key, name, endorsement.signature)
    }
    if len(valid) < genesis.threshold:
        raise RemoteError(
            f"{what} carries {len(valid)} valid authority signatures, {genesis.threshold} are needed"
        )


def dump_record(record: Record) -> bytes:
    return record.encoded


def load_record(data: bytes, network: NetworkId) -> Record:
    """A decision record whose nested signatures are verified; whether it was decided is for the chain to check.

    Raises:
        RemoteError: malformed, of another network, or a false signature.
    """
    return (_remembered if len(data) <= REMEMBERED_BYTES else _load_record)(data, network)


def _load_record(data: bytes, network: NetworkId) -> Record:
    record = decode(Record, data, limit_bytes=MAX_RECORD_BYTES)
    if record.decision.header.network != network:
        raise OtherNetworkError(
            f"decision of another network {record.decision.header.network.hex()[:10]}"
        )
    if record.certificate is not None:
        check_certificate_signatures(record.certificate, network)
    return record


_remembered = lru_cache(maxsize=REMEMBERED)(_load_record)
