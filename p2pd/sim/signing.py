"""Keys of simulated nodes."""

from hashlib import sha256

from nacl.signing import SigningKey

from p2pd.core.ids import PublicKey


class SimSigner:
    """Port Signer, with a key that follows from seed and name."""

    def __init__(self, seed: int, name: str) -> None:
        self._key = SigningKey(sha256(f"{seed}/{name}".encode()).digest())
        self.key = PublicKey(bytes(self._key.verify_key))

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message).signature
