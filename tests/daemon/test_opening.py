"""Damage in every place of a data directory: the node starts, or says in one line which file and what to do."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from p2pd.config.node import StoreSettings
from p2pd.core.encoding import decode, encode
from p2pd.core.genesis import SignedGenesis
from p2pd.errors import StoreError, UsageError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.keys import Ed25519Signer
from p2pd.wire.records import seal_genesis, seal_revision
from tests.cli.chains import AUTHORITY, Built
from tests.daemon.damages import CONTENT, DAMAGES, places
from tests.daemon.image import HEIGHTS, Image, Started, make_image, peer_of, start
from tests.daemon.unprivileged import unprivileged

ANY = frozenset(DAMAGES)
CHANGED = frozenset(CONTENT)
NO_FILE = frozenset({"directory", "pipe"})
LINKS = frozenset({"dangling", "loop", "moved"})

REFUSED: dict[str, list[tuple[frozenset[str], str]]] = {
    "key": [
        (CHANGED, "is damaged: it must hold 64 hex digits .* restore a copy"),
        (frozenset({"missing"}), "is gone, and .*ledger.sqlite is its: restore the key"),
        (frozenset({"dangling"}), "there is no key file here"),
        (frozenset({"loop"}), "a symbolic link without an end"),
        (NO_FILE, "not a file"),
    ],
    "ledger": [
        (frozenset({"empty", "half", "garbage"}), "is damaged .* restore a copy, or move it"),
        (frozenset({"missing"}), "is gone, but not 5 artifacts .* restore it, or move both"),
        (NO_FILE, "not a file: move it away"),
        (LINKS, "a symbolic link: .* put the file itself here"),
    ],
    "wal": [
        (CHANGED - {"longer"} | {"missing"}, "lacks 1 commit at its end: .* restore the newest"),
        (NO_FILE, "not a file: move it away"),
        (LINKS, "a symbolic link: .* put the file itself here"),
    ],
    "shm": [
        (NO_FILE, "not a file: move it away"),
        (LINKS, "a symbolic link: .* put the file itself here"),
    ],
    "count": [
        (NO_FILE, "not a file: move it away"),
        (LINKS, "a symbolic link: .* put the file itself here"),
    ],
    "lock": [
        (NO_FILE, "not a file"),
        (LINKS, "a symbolic link .* put the file itself here"),
    ],
    "control": [(frozenset({"directory"}), "it is a directory: move it away")],
    "log": [
        (NO_FILE, "it is a .*, not a file: move it away"),
        (frozenset({"loop"}), "a symbolic link"),
    ],
    "older log": [(NO_FILE, "not a file: move it away")],
    "leftover": [(frozenset({"directory"}), "it is a directory, not a file")],
    "head": [(NO_FILE, "not a file: move it away")],
    "head's manifest": [(NO_FILE, "not a file: move it away")],
    "part": [(NO_FILE, "not a file: move it away")],
    "part's manifest": [(NO_FILE, "not a file: move it away")],
    "kept": [(NO_FILE, "not a file: move it away")],
    "set aside": [(NO_FILE, "not a file: move it away")],
    "leftover blob": [(NO_FILE, "not a file: move it away")],
    "genesis": [
        (CHANGED, "not a signed genesis"),
        (ANY - CHANGED - {"moved"}, "cannot read the genesis"),
    ],
    "record": [
        (CHANGED, "not a revision of this network"),
        (ANY - CHANGED - {"moved"}, "cannot read the revision record"),
    ],
}
"""By place: which damages keep a node from starting, and what it says. With all others it starts."""

PLACES = [*REFUSED, "head file"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Image, Built]]:
    root = tmp_path_factory.mktemp("image")
    yield make_image(root)
    shutil.rmtree(root)


@pytest.fixture
def image(made: tuple[Image, Built], tmp_path: Path) -> Image:
    return made[0].copy(tmp_path / "copy")


@pytest.mark.parametrize("place", PLACES)
def test_i10_whatever_happened_to_a_file_a_node_starts_or_names_it(
    made: tuple[Image, Built], tmp_path: Path, place: str
) -> None:
    origin, built = made
    for name, damage in DAMAGES.items():
        image = origin.copy(tmp_path / name)
        (image.data_dir / "control").write_bytes(b"what a killed node left")
        path = places(image, built)[place]
        key = (image.data_dir / "key").read_bytes()
        damage(path)
        started = start(image)
        words = next((words for names, words in REFUSED.get(place, []) if name in names), "")
        if words:
            check_refused(started, path, words, f"{place} {name}")
        else:
            check_started(started, origin, image, built)
        if place != "key":
            assert (image.data_dir / "key").read_bytes() == key


def check_refused(started: Started, path: Path, words: str, case: str) -> None:
    error = started.error
    assert isinstance(error, StoreError | UsageError), f"{case}: it started"
    message = str(error)
    assert "\n" not in message
    # A lost log is told of by the ledger whose it was, a link by where it leads.
    told = [path, path.with_name("nowhere"), path.with_name(path.name.removesuffix("-wal"))]
    assert any(str(one) in message for one in told), f"{case}: {message}"
    assert re.search(words, message), f"{case}: {message}"


def check_started(started: Started, origin: Image, image: Image, built: Built) -> None:
    """It is who it was, stands where it stood, and takes nothing for an artifact that is none."""
    assert started.chain == (HEIGHTS, built.decisions[-1].head.hex()), started.error
    assert started.status is not None
    assert started.status["node"]["peer"] == peer_of(origin)
    names = [path.name for path in image.data_dir.rglob("*") if not path.is_symlink()]
    assert not [name for name in names if name.startswith("tmp-")], "leftovers of a crash"
    settings = StoreSettings(quota_bytes=0, reserve_bytes=0)
    store = FileBlobStore(image.data_dir / "blobs", settings, on_damage=lambda *_: None)
    for decision in built.decisions:
        if trio.run(store.check, decision.head):
            data = store.path(decision.head).read_bytes()
            assert data == origin.data_dir.joinpath("blobs", decision.head.hex()).read_bytes()


def test_a_sound_directory_starts_without_a_warning_and_all_heads_are_there(
    made: tuple[Image, Built], image: Image
) -> None:
    started = start(image)
    check_started(started, made[0], image, made[1])
    assert started.said == ()
    store = FileBlobStore(image.data_dir / "blobs", StoreSettings(), on_damage=lambda *_: None)
    assert all(trio.run(store.check, decision.head) for decision in made[1].decisions)


@pytest.mark.parametrize("name", ["empty", "half", "longer"])
def test_a_head_of_another_size_is_said_and_set_aside(
    made: tuple[Image, Built], image: Image, name: str
) -> None:
    path = places(image, made[1])["head"]
    DAMAGES[name](path)
    said = start(image).said
    assert len(said) == 1
    assert f"{path}: size or manifest does not match; moved to {path}.damaged" in said[0]


def test_a_directory_without_blobs_says_that_they_are_gone(
    made: tuple[Image, Built], image: Image
) -> None:
    shutil.rmtree(image.data_dir / "blobs")
    started = start(image)
    assert started.chain[0] == HEIGHTS
    assert started.said == (
        f"{image.data_dir / 'blobs'} is gone: artifacts are fetched again as they are needed",
    )


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_head_file_that_is_not_the_genesis_head_is_refused_where_it_is_needed(
    made: tuple[Image, Built], image: Image, name: str
) -> None:
    paths = places(image, made[1])
    genesis_head = image.data_dir / "blobs" / made[1].decisions[0].head.hex()
    genesis_head.unlink()
    DAMAGES[name](paths["head file"])
    check_refused(start(image), paths["head file"], "not the genesis head", name)


def test_a_head_file_that_is_missing_is_fetched_and_one_that_is_there_is_taken(
    made: tuple[Image, Built], image: Image
) -> None:
    genesis_head = image.data_dir / "blobs" / made[1].decisions[0].head.hex()
    data = genesis_head.read_bytes()
    genesis_head.unlink()
    assert start(image).error is None
    assert genesis_head.read_bytes() == data
    genesis_head.unlink()
    places(image, made[1])["head file"].unlink()
    assert start(image).error is None
    assert not genesis_head.exists()


def test_a_disk_without_room_for_the_genesis_head_keeps_no_node_from_going_on(
    made: tuple[Image, Built], image: Image
) -> None:
    (image.data_dir / "blobs" / made[1].decisions[0].head.hex()).unlink()
    config = image.config.read_text()
    image.config.write_text(f"{config}\n[store]\nreserve_bytes = {10**18}\n")
    started = start(image)
    assert started.chain[0] == HEIGHTS
    room, imported = started.said
    assert "free some disk space" in room
    assert imported.startswith(f"{places(image, made[1])['head file']} is not imported")
    assert started.status is not None
    assert f"store: {room}" in started.status["node"]["degraded"]


def test_i10_a_ledger_that_vanished_with_all_its_files_is_said(image: Image) -> None:
    for path in image.data_dir.glob("ledger.*"):
        path.unlink()
    error = start(image).error
    assert f"{image.data_dir / 'ledger.sqlite'} is gone, but not 5 artifacts" in str(error)


def test_i10_an_older_copy_of_the_ledger_is_not_taken_for_the_newest(image: Image) -> None:
    older = image.data_dir.parent / "older"
    shutil.copy(image.data_dir / "ledger.sqlite", older)
    assert start(image).error is None  # which ends with all commits in the file itself
    older.replace(image.data_dir / "ledger.sqlite")
    assert "lacks 1 commit at its end" in str(start(image).error)
    (image.data_dir / "ledger.count").unlink()  # as the message says
    assert start(image).chain[0] == HEIGHTS


def test_another_nodes_key_is_refused_with_both_names(image: Image) -> None:
    other = Ed25519Signer(bytes(range(32)))
    mine = peer_of(image)
    (image.data_dir / "key").write_text(other.seed.hex() + "\n")
    error = str(start(image).error)
    assert f"{image.data_dir / 'key'} is the key of {other.peer.hex()[:10]}" in error
    assert f"{image.data_dir / 'ledger.sqlite'} is of {mine[:10]}" in error


def test_a_directory_of_another_network_is_refused_with_both_names(
    made: tuple[Image, Built], image: Image
) -> None:
    path = image.root / "genesis.cbor"
    genesis = decode(SignedGenesis, path.read_bytes()).genesis
    other = replace(genesis, name="other")
    revision = replace(made[1].setting.revision, network=other.network)
    path.write_bytes(encode(seal_genesis(other, (AUTHORITY,))))
    image.record.write_bytes(encode(seal_revision(revision, (AUTHORITY,))))
    error = start(image).error
    assert isinstance(error, UsageError)
    assert genesis.network.hex()[:10] in str(error)
    assert other.network.hex()[:10] in str(error)


UNREADABLE = ["key", "ledger", "wal", "shm", "count", "lock", "log", "head's manifest", "genesis"]


@pytest.mark.parametrize("place", [*UNREADABLE, "record"])
def test_a_file_that_may_not_be_read_is_named(
    made: tuple[Image, Built], image: Image, place: str
) -> None:
    path = places(image, made[1])[place]
    path.chmod(0o000)
    with unprivileged():
        error = start(image).error
    assert error is not None
    # SQLite does not say which of its files it could not open.
    told = [path, path.with_name("ledger.sqlite")] if place in ("wal", "shm") else [path]
    assert any(str(one) in str(error) for one in told), error
    assert re.search("[Pp]ermission denied|check .*can be written", str(error))
    path.chmod(0o600)
    assert start(image).chain[0] == HEIGHTS


@pytest.mark.parametrize("name", ["node", "node/blobs"])
def test_a_directory_that_may_not_be_written_is_named(image: Image, name: str) -> None:
    directory = image.root / name
    for path in directory.iterdir():
        if path.name.startswith("tmp-"):
            path.unlink()
    for mode in (0o000, 0o500):
        directory.chmod(mode)
        with unprivileged():
            started = start(image)
        directory.chmod(0o700)
        if mode:  # nothing is written at a start where all is there
            assert started.error is None or str(directory) in str(started.error)
        else:
            assert str(directory) in str(started.error)
            assert "ermission denied" in str(started.error)


def test_a_head_that_may_not_be_read_stops_no_start_and_is_not_taken_for_damaged(
    made: tuple[Image, Built], image: Image
) -> None:
    path = places(image, made[1])["head"]
    path.chmod(0o000)
    with unprivileged():
        assert start(image).said == ()
    assert path.exists()
