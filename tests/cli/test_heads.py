import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from p2pd.cli.lineage_tables import _until
from p2pd.core.encoding import encode
from p2pd.wire.records import seal_genesis
from tests.cli.chains import AUTHORITY, TRAINERS, VALIDATORS, Built, build_chain, flip, tensor_bytes
from tests.cli.commands import p2pd


def test_a_sound_chain_is_listed_from_the_genesis_on(chain: Built) -> None:
    rows = p2pd("heads", "list", *chain.arguments, "--json").json
    assert [(row["height"], row["outcome"]) for row in rows] == [
        (0, "genesis"),
        (1, "kept(idle)"),
        (2, "promoted"),
        (3, "promoted"),
        (4, "promoted"),
    ]
    assert [(row["accepted"], row["rejected"]) for row in rows[1:3]] == [(0, 0), (1, 1)]
    assert rows[2]["head"] == chain.decisions[2].head.hex()


def test_the_metric_is_the_median_over_validators(chain: Built) -> None:
    rows = p2pd("heads", "list", *chain.arguments, "--json").json
    assert rows[0]["metric"] is None
    assert rows[2]["metric"] == 0.902001  # of 0.902000, 0.902001, 0.902002


def test_a_height_is_shown_with_its_cohort_and_who_voted(chain: Built) -> None:
    found = p2pd("heads", "show", 2, *chain.arguments, "--json").json
    assert sorted(entry["verdict"] for entry in found["cohort"]) == ["accepted", "nonfinite"]
    accepted = next(entry for entry in found["cohort"] if entry["verdict"] == "accepted")
    rejected = next(entry for entry in found["cohort"] if entry["verdict"] == "nonfinite")
    assert accepted["weight"] > 0
    assert rejected["weight"] == 0
    assert {vote["peer"] for vote in found["votes"]} == {v.peer.hex() for v in VALIDATORS[:2]}
    assert {row["peer"] for row in found["standing"]} == {accepted["peer"], rejected["peer"]}
    assert len(found["leases"]) == 2


def test_without_a_height_the_newest_is_shown(chain: Built) -> None:
    assert p2pd("heads", "show", *chain.arguments, "--json").json["height"] == 4


@pytest.mark.parametrize(
    ("height", "said"),
    [("9", "height 9 is not here; the newest is 4"), ("x", "must be a whole number, or: latest")],
)
def test_a_height_that_is_none_is_a_matter_of_usage(chain: Built, height: str, said: str) -> None:
    ran = p2pd("heads", "show", height, *chain.arguments)
    assert ran.code == 2
    assert said in ran.err


def test_tables_for_people_name_heights_and_verdicts(chain: Built) -> None:
    listed = p2pd("heads", "list", *chain.arguments).out
    assert "kept(idle)" in listed
    assert "0.9020" in listed
    shown = p2pd("heads", "show", 2, *chain.arguments).out
    assert "nonfinite" in shown
    assert chain.decisions[2].id.hex() in shown


def test_a_height_says_who_missed_its_lease_and_what_share_each_update_had(tmp_path: Path) -> None:
    chain = build_chain(tmp_path, missed_at=3)
    missing = TRAINERS[1].peer.hex()
    words = p2pd("heads", "show", 3, *chain.arguments).out.splitlines()
    (missed,) = (line.split() for line in words if line.split()[1:2] == ["missed"])
    assert missed == [missing[:10], "missed", "-", "20", "-", "-"]
    (accepted,) = (line for line in words if "accepted" in line)
    assert accepted.endswith("100.0 %")
    found = p2pd("heads", "show", 3, *chain.arguments, "--json").json
    assert found["missed"] == [{"peer": missing, "leased": 20}]
    assert found["cohort"][0]["weight"] == found["cohort"][0]["samples"] * 2**20
    assert p2pd("heads", "show", 2, *chain.arguments, "--json").json["missed"] == []


def test_a_height_says_in_words_what_comes_next_and_where_nothing_was_measured(
    chain: Built,
) -> None:
    first = p2pd("heads", "show", 0, *chain.arguments).out
    assert "outcome   genesis" in first
    assert "next      height 1 waits for a trainer" in first
    assert "reports   none here: each head is measured once" in first
    second = p2pd("heads", "show", 2, *chain.arguments).out
    assert "next      height 3, with 2 leases" in second
    assert "none here" not in second
    assert second.count("never was") == 2


def test_further_figures_of_a_head_are_shown_with_its_reports(chain: Built) -> None:
    lines = p2pd("heads", "show", 2, *chain.arguments).out.splitlines()
    (names,) = [line.split() for line in lines if "loss" in line]
    assert names[-1] == "top5"
    assert sum(line.rstrip().endswith("0.9900") for line in lines) == 3
    found = p2pd("heads", "show", 2, *chain.arguments, "--json").json
    assert {report["figures"]["top5"] for report in found["reports"]} == {0.99}


@pytest.mark.parametrize(
    ("end", "said"), [(0, "never was"), (44, "height 44"), (13, "height 13, over")]
)
def test_a_quarantine_is_told_in_heights(end: int, said: str) -> None:
    assert _until(end, 13) == said


def test_a_head_is_exported_as_it_is(chain: Built, tmp_path: Path) -> None:
    out = tmp_path / "head.safetensors"
    ran = p2pd("heads", "export", 2, *chain.arguments, "--out", out, "--json")
    assert ran.json["head"] == chain.decisions[2].head.hex()
    assert out.read_bytes() == tensor_bytes(2)


def test_an_export_replaces_nothing_that_is_there(chain: Built, tmp_path: Path) -> None:
    mine, link, pipe = tmp_path / "mine", tmp_path / "link", tmp_path / "pipe"
    mine.write_text("mine")
    link.symlink_to("nowhere")
    os.mkfifo(pipe)
    for out in (mine, link, pipe, tmp_path):
        ran = p2pd("heads", "export", 2, *chain.arguments, "--out", out)
        assert (ran.code, ran.err.splitlines()) == (
            2,
            [f"p2pd: {out}: exists already: choose another name, or move it away"],
        )
    assert mine.read_text() == "mine"
    assert pipe.is_fifo()


@pytest.mark.parametrize("height", ["9" * 30, "9" * 5000, "-1", "x"])
def test_a_height_that_no_chain_has_is_refused(chain: Built, height: str) -> None:
    ran = p2pd("heads", "show", *chain.arguments, "--", height)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1


def test_what_is_no_file_is_not_waited_for(chain: Built, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for words in (
        ("network", "show", pipe),
        ("heads", "list", "--genesis", pipe, "--data-dir", chain.data_dir),
        ("config", "check", pipe),
        ("config", "check", "/dev/zero"),
        ("fleet", "up", pipe),
        ("network", "show", "x" * 300),
    ):
        ran = p2pd(*words)
        assert ran.code in (1, 2), words
        assert len(ran.err.splitlines()) == 1, words
        assert "Traceback" not in ran.err


def test_a_damaged_head_is_not_exported(chain: Built, tmp_path: Path) -> None:
    head = chain.decisions[4].head
    flip(chain.blob(head))
    out = tmp_path / "out" / "head.safetensors"
    out.parent.mkdir()
    ran = p2pd("heads", "export", *chain.arguments, "--out", out)
    assert ran.code == 1
    said = f"p2pd: blob {head.hex()} in {chain.data_dir}: chunk 0 was changed: export"
    assert ran.err.startswith(said)
    assert list(out.parent.iterdir()) == []


def test_an_exported_head_is_read_without_p2pd(chain: Built, tmp_path: Path) -> None:
    out = tmp_path / "head.safetensors"
    p2pd("heads", "export", 3, *chain.arguments, "--out", out)
    script = """
import json, sys, torch
data = open(sys.argv[1], "rb").read()
size = int.from_bytes(data[:8], "little")
for name, entry in json.loads(data[8 : 8 + size]).items():
    start, end = entry["data_offsets"]
    raw = bytearray(data[8 + size + start : 8 + size + end])
    tensor = torch.frombuffer(raw, dtype=torch.float32).reshape(entry["shape"])
    print(name, tensor.tolist(), any(module.startswith("p2pd") for module in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(out)], capture_output=True, text=True, check=True
    )
    odd = 2 * (1 + 3 / 128)  # 0x40030000
    assert done.stdout == f"weight {[[1.0, odd, 1.0], [odd, 1.0, odd]]} False\n"


def test_a_revision_is_chosen_by_name_or_id(chain: Built) -> None:
    identifier = chain.setting.revision.id.hex()
    for name in ("r1", identifier[:6], identifier):
        assert p2pd("heads", "verify", *chain.arguments, "--revision", name).code == 0
    ran = p2pd("heads", "verify", *chain.arguments, "--revision", "r2")
    assert ran.code == 2
    assert "no revision r2 is here" in ran.err


def test_another_network_s_genesis_verifies_nothing(chain: Built, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    genesis = replace(chain.setting.genesis, nonce=bytes(15) + b"\1")
    assert genesis.network != chain.setting.genesis.network
    file = tmp_path / "other.cbor"
    file.write_bytes(encode(seal_genesis(genesis, (AUTHORITY,))))
    ran = p2pd("heads", "verify", "--genesis", file, "--data-dir", chain.data_dir)
    assert ran.code == 2
    assert "the revision is of network" in ran.err


def test_a_directory_without_a_ledger_is_a_matter_of_usage(chain: Built, tmp_path: Path) -> None:
    ran = p2pd("heads", "list", "--genesis", chain.genesis_file, "--data-dir", tmp_path)
    assert ran.code == 2
    assert "no ledger here" in ran.err


def test_a_ledger_that_is_none_is_said(chain: Built) -> None:
    (chain.data_dir / "ledger.sqlite").write_bytes(b"not a database" * 100)
    ran = p2pd("heads", "list", *chain.arguments)
    assert ran.code == 1
    assert "ledger.sqlite: cannot be read" in ran.err
    assert "restore a copy" in ran.err


def test_a_ledger_of_a_newer_p2pd_is_said(chain: Built) -> None:
    connection = sqlite3.connect(chain.data_dir / "ledger.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    ran = p2pd("heads", "list", *chain.arguments)
    assert ran.code == 1
    assert "run the newer p2pd" in ran.err


def test_a_head_that_is_not_kept_here_is_said_to_be_elsewhere(chain: Built, tmp_path: Path) -> None:
    head = chain.decisions[4].head
    chain.blob(head).unlink()
    ran = p2pd("heads", "export", *chain.arguments, "--out", tmp_path / "head.safetensors")
    assert ran.code == 1
    assert "the head of height 4 is not kept here" in ran.err


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "UPDATE decisions SET value = 'a' WHERE key = (SELECT max(key) FROM decisions)",
            "a row of its table decisions was changed",
        ),
        ("UPDATE decisions SET value = 7", "a row of its table decisions was changed"),
        (
            "UPDATE decisions SET key = CAST(key || x'00' AS BLOB)",
            "a row of its table decisions was changed",
        ),
        ("UPDATE revisions SET key = 'a'", "a row of its table revisions was changed"),
        ("DROP TABLE reports", "its table reports is missing"),
        ("ALTER TABLE reports RENAME TO other", "its table reports is missing"),
        (
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = CAST(x'ff' AS TEXT), sql = 'no'",
            "its tables have names that are no text",
        ),
    ],
)
@pytest.mark.parametrize("command", ["list", "verify"])
def test_a_ledger_that_another_program_changed_is_said_to_be_damaged(
    chain: Built, script: str, why: str, command: str
) -> None:
    with closing(sqlite3.connect(chain.data_dir / "ledger.sqlite")) as connection:
        connection.executescript(script)
    ran = p2pd("heads", command, *chain.arguments)
    assert ran.code == 1
    assert f"ledger.sqlite is damaged ({why}): restore a copy" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("place", ["head", "blobs/head", "../link/head"])
def test_nothing_is_exported_into_the_data_directory_of_a_node(chain: Built, place: str) -> None:
    (chain.data_dir.parent / "link").symlink_to(chain.data_dir / "blobs")
    ran = p2pd("heads", "export", *chain.arguments, "--out", chain.data_dir / place)
    assert ran.code == 2
    assert "which is a node's own: choose another place" in ran.err
    assert not (chain.data_dir / place).exists()


def test_a_name_with_a_line_end_in_it_is_one_line(tmp_path: Path) -> None:
    ran = p2pd("network", "show", tmp_path / "a\np2pd: all is well")
    assert ran.code == 2
    assert (
        ran.err
        == f"p2pd: {tmp_path}/a\\np2pd: all is well: there is no such file: look at the path\n"
    )
