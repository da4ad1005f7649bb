"""Ed25519 keys in files: 64 hex digits of the seed and a newline, for the owner's eyes only.

Source: RFC 8032.
"""

import os
import re
import stat
from pathlib import Path

from nacl.signing import SigningKey

from p2pd.core.ids import PeerId, PublicKey, peer_id
from p2pd.errors import StoreError
from p2pd.io.durable import open_file, read_most, storing, sync_directory, write_aside

CONTENT = re.compile(rb"([0-9a-f]{64})\n")
CONTENT_BYTES = 65


class Ed25519Signer:
    """Implements the port Signer."""

    def __init__(self, seed: bytes) -> None:
        self._signing_key = SigningKey(seed)
        self._key = PublicKey(bytes(self._signing_key.verify_key))

    @property
    def key(self) -> PublicKey:
        return self._key

    @property
    def peer(self) -> PeerId:
        return peer_id(self._key)

    @property
    def seed(self) -> bytes:
        """The secret itself, 32 bytes: for the certificate that the transport presents."""
        return bytes(self._signing_key)

    def sign(self, message: bytes) -> bytes:
        return self._signing_key.sign(message).signature


def load_or_create_key(path: Path) -> Ed25519Signer:
    """The key in path; where there is none, a new one is made and kept."""
    with storing(path):
        present = path.exists() or path.is_symlink()
    return load_key(path) if present else create_key(path)


def load_key(path: Path) -> Ed25519Signer:
    """
    Raises:
        StoreError: there is none, others may read it, or it is damaged.
    """
    try:
        with storing(path):
            content, mode = _read(path)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise StoreError(f"{path}: there is no key file here: p2pd id makes one") from error
        raise
    if mode & 0o077:
        raise StoreError(
            f"key file {path} is open to others (mode {mode:04o}): run chmod 600 {path}; "
            "if others can log in here, make a new key"
        )
    match = CONTENT.fullmatch(content)
    if match is None:
        raise StoreError(
            f"key file {path} is damaged: it must hold 64 hex digits and a newline; "
            "restore a copy, or move it away to become a new peer"
        )
    return Ed25519Signer(bytes.fromhex(match[1].decode()))


def create_key(path: Path) -> Ed25519Signer:
    """A new key, kept in path.

    Raises:
        StoreError: path exists, or cannot be written.
    """
    signer = Ed25519Signer(bytes(SigningKey.generate()))
    with storing(path):
        aside = write_aside(path.parent, signer.seed.hex().encode() + b"\n")
        try:
            # Unlike a rename, a link never replaces: of two who make a key at once, one fails.
            os.link(aside, path)
        finally:
            aside.unlink()
        sync_directory(path.parent)
    return signer


def _read(path: Path) -> tuple[bytes, int]:
    """Content, a byte more than a key at most, and mode."""
    with open_file(path) as file:
        return read_most(file, CONTENT_BYTES), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
