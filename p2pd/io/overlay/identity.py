"""A node's key as TLS sees it: a self-signed Ed25519 certificate whose only content is the key.

Source: RFC 8410; names and dates are filled in because X.509 wants them, nobody reads them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from p2pd.core.ids import PeerId, PublicKey, peer_id


@dataclass(frozen=True, slots=True)
class Identity:
    seed: bytes = field(repr=False)
    """Ed25519 private key, 32 bytes."""

    @property
    def private_key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def key(self) -> PublicKey:
        return PublicKey(self.private_key.public_key().public_bytes_raw())

    @property
    def peer(self) -> PeerId:
        return peer_id(self.key)


def certificate(identity: Identity) -> x509.Certificate:
    private_key = identity.private_key
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "p2pd")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private_key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        # RFC 5280 4.1.2.5: this date means that the certificate does not expire.
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
        .sign(private_key, None)
    )
