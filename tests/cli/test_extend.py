"""`p2pd experiment extend`: what it signs, and what it refuses. That a node takes it is in tests/end_to_end."""

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from p2pd.core.encoding import encode
from p2pd.core.governance import beginning, check_endorsed
from p2pd.core.revision import Schedule
from p2pd.io.ledger import SqliteLedger
from p2pd.ports import Table, Write
from p2pd.wire.records import load_governance, seal_revision
from tests.cli.chains import AUTHORITY, Built, build_chain, key
from tests.cli.commands import Ran, p2pd

ENDING = Schedule(2, 8, 4, 60_000, 1000, 30_000, 50, 0)


@pytest.fixture
def chain(tmp_path: Path) -> Built:
    """Of a run that ends after fifty heads, with its record and its authority's key."""
    built = build_chain(tmp_path, schedule=ENDING)
    write_key(tmp_path / "key", AUTHORITY.seed)
    signed = seal_revision(built.setting.revision, (AUTHORITY,))
    (tmp_path / "r1.revision.cbor").write_bytes(encode(signed))
    return built


def write_key(path: Path, seed: bytes) -> None:
    path.write_text(seed.hex() + "\n")
    path.chmod(0o600)


def extend(chain: Built, *more: object) -> Ran:
    root = chain.genesis_file.parent
    return p2pd(
        *("experiment", "extend", *chain.arguments, "--authority", root / "key"),
        *("--record", root / "r1.revision.cbor", *more),
    )


def test_an_extension_is_the_next_record_of_the_nodes_log(chain: Built, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    ran = extend(chain, "--end-heads", 60, "--out", first)
    assert ran.code == 0, ran.err
    assert "extension  number 1 of the governance log" in ran.out
    assert f"written    {first}: hand it over by --from {first} --data-dir DIR" in ran.out
    network = chain.setting.genesis.network
    signed = load_governance(first.read_bytes(), network)
    check_endorsed(chain.setting.genesis, signed)
    assert beginning(network).takes(signed.record)
    assert signed.record.action.revision == chain.setting.revision.id
    assert (signed.record.action.end_heads, signed.record.action.end_epochs) == (60, None)
    keep(chain, first.read_bytes())
    after = extend(chain, "--end-heads", 0, "--out", second, "--json")
    assert (after.json["number"], after.json["end_heads"]) == (2, 0)
    assert signed.place.takes(load_governance(second.read_bytes(), network).record)


def keep(chain: Built, data: bytes) -> None:
    with SqliteLedger(chain.data_dir / "ledger.sqlite") as ledger:
        trio.run(ledger.commit, [Write(Table.GOVERNANCE, bytes(7) + b"\1", data)])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "an extension has an end: of heads, of epochs, or a target: name --end-heads"),
        (["--end-heads", 50], "--end-heads 50: the end in force is 50: name a later one"),
        (["--end-heads", 3], "--end-heads 3: the end in force is 50"),
        (["--end-heads", -1], "an end is a number from 0"),
        (["--end-epochs", 3], "--end-epochs 3: this run has no such end: leave it out"),
        (["--target", 0.9], "--target: this run has no target: leave it out"),
        (["--target", "nan"], "--target nan: name a number that a metric can be"),
        (["--end-heads", 60], "no node is running in"),
    ],
)
def test_what_extends_nothing_is_refused(chain: Built, more: list[object], said: str) -> None:
    ran = extend(chain, *more)
    assert ran.code in (1, 2)
    assert said in ran.err


def test_several_keys_sign_one_after_the_other(tmp_path: Path) -> None:
    keys = [key(f"authority {n}") for n in range(3)]
    chain = build_chain(tmp_path, authority=keys, schedule=ENDING)
    for n, one in enumerate(keys):
        write_key(tmp_path / f"key{n}", one.seed)
    record = tmp_path / "r1.revision.cbor"
    record.write_bytes(encode(seal_revision(chain.setting.revision, tuple(keys))))
    words = ("experiment", "extend", *chain.arguments)
    half, whole = tmp_path / "half", tmp_path / "whole"
    made = (*words, "--record", record, "--end-heads", 60, "--authority", tmp_path / "key2")
    alone = p2pd(*made)
    assert alone.code == 2
    assert "it lacks 1 signature of the authority: write it by --out" in alone.err
    assert p2pd(*made, "--out", half).code == 0
    ran = p2pd(*words, "--from", half, "--authority", tmp_path / "key0", "--out", whole, "--json")
    assert len(ran.json["endorsements"]) == 2
    check_endorsed(
        chain.setting.genesis, load_governance(whole.read_bytes(), chain.setting.genesis.network)
    )
    write_key(tmp_path / "stranger", key("stranger").seed)
    stranger = p2pd(*words, "--from", half, "--authority", tmp_path / "stranger", "--out", whole)
    assert (stranger.code, "not of this network's authority" in stranger.err) == (2, True)


def test_a_damaged_file_or_log_is_said(chain: Built, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"nonsense")
    ran = p2pd("experiment", "extend", *chain.arguments, "--from", tmp_path / "file")
    assert (ran.code, "not a governance record" in ran.err) == (1, True)
    keep(chain, b"nonsense")
    ran = extend(chain, "--end-heads", 60)
    assert (ran.code, "governance record 1 is damaged" in ran.err) == (1, True)


def test_a_target_is_moved_away_only(tmp_path: Path) -> None:
    chain = build_chain(tmp_path, schedule=replace(ENDING, target=900_000))
    write_key(tmp_path / "key", AUTHORITY.seed)
    signed = seal_revision(chain.setting.revision, (AUTHORITY,))
    (tmp_path / "r1.revision.cbor").write_bytes(encode(signed))
    lower = extend(chain, "--target", 0.8)
    assert (lower.code, "the target in force is 0.9: name one that is harder" in lower.err) == (
        2,
        True,
    )
    ran = extend(chain, "--target", 0.95, "--out", tmp_path / "file", "--json")
    assert (ran.json["target"], ran.json["end_heads"]) == (0.95, None)
