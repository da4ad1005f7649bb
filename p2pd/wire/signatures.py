"""Ed25519 by libsodium: what every signature of the protocol is made and checked with."""

from functools import lru_cache

from nacl.exceptions import CryptoError
from nacl.signing import VerifyKey

from p2pd.core.ids import PublicKey

SIGNATURE_BYTES = 64
REMEMBERED = 16_384
"""A vote is seen on its own, in proposals and in certificates. With its message: 24 MB at most."""
REMEMBERED_BYTES = 1024
"""Longer messages are not remembered: a stranger's proposals of 4 MiB would stay in memory."""


def verify(key: PublicKey, message: bytes, signature: bytes) -> bool:
    small = len(message) <= REMEMBERED_BYTES and len(signature) == SIGNATURE_BYTES
    return (_remembered if small else _verify)(key, message, signature)


def _verify(key: PublicKey, message: bytes, signature: bytes) -> bool:
    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        VerifyKey(key).verify(message, signature)
    except (CryptoError, ValueError):
        return False
    return True


_remembered = lru_cache(maxsize=REMEMBERED)(_verify)
