"""Ed25519 by libsodium: what every signature of the protocol is made and checked with."""

from functools import lru_cache

from nacl.exceptions import CryptoError
from nacl.signing import VerifyKey

from p2pd.core.ids import PublicKey

SIGNATURE_BYTES = 64
REMEMBERED = (
    16_384  # a vote is seen on its own, in proposals and in certificates: about 1 MB of results
)


@lru_cache(maxsize=REMEMBERED)
def verify(key: PublicKey, message: bytes, signature: bytes) -> bool:
    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        VerifyKey(key).verify(message, signature)
    except (CryptoError, ValueError):
        return False
    return True
