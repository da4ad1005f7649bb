import stat
from pathlib import Path

import nacl.exceptions
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import VerifyKey

from p2pd.core.ids import peer_id
from p2pd.errors import StoreError
from p2pd.io.keys import Ed25519Signer, create_key, load_key, load_or_create_key
from p2pd.ports import Signer


def test_a_key_is_made_once_and_then_loaded(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = load_or_create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_key(path).seed == made.seed
    assert load_or_create_key(tmp_path / "other").seed != made.seed
    assert [item.name for item in sorted(tmp_path.iterdir())] == ["key", "other"]


def test_it_signs_as_ed25519_does() -> None:
    # RFC 8032 7.1, TEST 2
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    signer: Signer = Ed25519Signer(seed)
    assert signer.key.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    signature = signer.sign(b"\x72")
    assert signature.hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    VerifyKey(signer.key).verify(b"\x72", signature)
    with pytest.raises(nacl.exceptions.BadSignatureError):
        VerifyKey(signer.key).verify(b"\x73", signature)


def test_the_peer_id_is_the_hash_of_the_key() -> None:
    signer = Ed25519Signer(bytes(32))
    assert signer.peer == peer_id(signer.key)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o601])
def test_a_key_that_others_may_touch_is_refused_with_the_command_to_run(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "key"
    load_or_create_key(path)
    path.chmod(mode)
    with pytest.raises(
        StoreError, match=rf"open to others \(mode {mode:04o}\): run chmod 600 {path}"
    ):
        load_or_create_key(path)


@given(content=st.binary(max_size=70) | st.just(b"0" * 64) | st.just(b"A" * 64 + b"\n"))
def test_i10_a_damaged_key_is_refused_and_never_replaced(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("keys") / "key"
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=rf"key file {path} is damaged: .* 64 hex digits"):
        load_or_create_key(path)
    assert path.read_bytes() == content


def test_a_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    with path.open("r+b") as file:
        file.truncate(2**42)
    with pytest.raises(StoreError, match="is damaged"):
        load_key(path)


def test_making_a_key_never_replaces_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    first = create_key(path)
    with pytest.raises(StoreError, match="there is a file of that name already"):
        create_key(path)
    assert load_key(path).seed == first.seed
    assert [item.name for item in tmp_path.iterdir()] == ["key"]


def test_i10_a_crash_while_a_key_is_made_leaves_no_empty_key(tmp_path: Path) -> None:
    (tmp_path / "tmp-leftover").touch()
    load_or_create_key(tmp_path / "key")
    assert len(load_key(tmp_path / "key").seed) == 32


@pytest.mark.parametrize("case", ["missing", "directory", "dangling"])
def test_what_is_no_key_file_is_named(tmp_path: Path, case: str) -> None:
    path = tmp_path / "key"
    if case == "directory":
        path.mkdir()
    elif case == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    said = "it is a directory" if case == "directory" else "there is no key file here"
    with pytest.raises(StoreError, match=f"{path}: {said}"):
        load_key(path)


def test_a_key_is_not_made_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        load_or_create_key(tmp_path / "nowhere" / "key")
