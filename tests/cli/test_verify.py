"""What `p2pd heads verify` finds in a ledger and among artifacts, and what it only notes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from p2pd.cli.verify import _blobs
from p2pd.core.decision import Record
from p2pd.core.derive import derive
from p2pd.core.ids import ArtifactId
from p2pd.core.work import OuterRule
from p2pd.io.ledger import SqliteLedger
from p2pd.io.lock import DataDirectory
from p2pd.wire.envelope import load_choices
from p2pd.wire.records import dump_record
from tests.cli.chains import VALIDATORS, Built, build_chain, certify, flip, forged
from tests.cli.commands import p2pd


def verify(chain: Built) -> dict[str, str]:
    """Faults, by place; the command's exit code agrees."""
    ran = p2pd("heads", "verify", *chain.arguments, "--json")
    faults = {f["where"]: f["what"] for f in ran.json["findings"] if f["fault"]}
    assert ran.code == (1 if faults else 0)
    assert ran.json["ok"] == (not faults)
    return faults


def notes(chain: Built) -> dict[str, str]:
    ran = p2pd("heads", "verify", *chain.arguments, "--json")
    assert ran.code == 0
    return {f["where"]: f["what"] for f in ran.json["findings"] if not f["fault"]}


def test_a_sound_chain_verifies(chain: Built) -> None:
    ran = p2pd("heads", "verify", *chain.arguments)
    assert ran.code == 0
    assert ran.out == "sound: 5 decisions and 5 artifacts checked\n"


def test_it_all_works_while_a_node_writes(chain: Built) -> None:
    with DataDirectory(chain.data_dir), SqliteLedger(chain.data_dir / "ledger.sqlite"):
        assert verify(chain) == {}
        assert len(p2pd("heads", "list", *chain.arguments, "--json").json) == 5


def test_verifying_changes_no_file(chain: Built) -> None:
    flip(chain.blob(chain.decisions[2].head))
    (chain.data_dir / "blobs" / "tmp-1").write_bytes(b"half")
    before = sorted((chain.data_dir / "blobs").iterdir())
    verify(chain)
    assert sorted((chain.data_dir / "blobs").iterdir()) == before


def test_a_flipped_byte_of_a_decision_is_found_wherever_it_lies(chain: Built) -> None:
    sound = chain.stored(3)
    for offset in range(0, len(sound), 37):  # a prime step: header, choices, state, certificate
        changed = bytearray(sound)
        changed[offset] ^= 1
        chain.store(3, bytes(changed))
        assert list(verify(chain)) == ["height 3"], f"byte {offset}"


def test_a_certificate_for_another_decision_is_found(chain: Built) -> None:
    other = forged(chain.decisions[3], ArtifactId(bytes(32)))
    certificate = certify(chain.setting, other)
    chain.store(3, dump_record(Record(chain.decisions[3], certificate)))
    assert verify(chain) == {"height 3": "its certificate is for another decision"}


def test_a_decision_that_does_not_follow_is_found_though_a_quorum_signed_it(chain: Built) -> None:
    other = forged(chain.decisions[3], ArtifactId(bytes(32)))
    chain.store(3, dump_record(Record(other, certify(chain.setting, other))))
    assert verify(chain) == {"height 3": "does not follow from its own choices"}


def test_too_few_votes_are_found(chain: Built) -> None:
    certificate = certify(chain.setting, chain.decisions[3], VALIDATORS[:1])
    chain.store(3, dump_record(Record(chain.decisions[3], certificate)))
    (fault,) = verify(chain).items()
    assert fault[0] == "height 3"
    assert "precommits weigh 1, the quorum is 2" in fault[1]


def test_another_genesis_decision_is_found(chain: Built) -> None:
    other = forged(chain.decisions[0], ArtifactId(bytes(32)))
    chain.store(0, dump_record(Record(other, None)))
    assert verify(chain) == {"height 0": "does not follow from the genesis and the signed revision"}


def test_heights_that_a_late_node_leapt_over_are_named_and_are_no_fault(chain: Built) -> None:
    chain.edit("DELETE FROM decisions WHERE key = ?", chain.key(2))
    assert notes(chain) == {"height 2": "not here: height 3 is certified without"}
    chain.edit("DELETE FROM decisions WHERE key = ?", chain.key(1))
    assert notes(chain) == {"heights 1 to 2": "not here: height 3 is certified without"}
    rows = p2pd("heads", "show", "3", *chain.arguments, "--json").json["cohort"]
    assert {(row["leased"], row["weight"]) for row in rows} == {(None, None)}
    chain.edit("DELETE FROM decisions WHERE key = ?", chain.key(0))
    assert list(verify(chain)) == ["height 3"]


def test_a_report_that_nobody_signed_is_found(chain: Built) -> None:
    place = chain.key(3) + VALIDATORS[0].peer
    chain.edit(
        "UPDATE reports SET value = (SELECT value FROM reports WHERE key = ?) WHERE key = ?",
        chain.key(2) + VALIDATORS[0].peer,
        place,
    )
    assert verify(chain) == {"reports of height 3": "a report belongs elsewhere"}


def test_a_changed_revision_is_found(chain: Built) -> None:
    chain.edit("UPDATE revisions SET value = CAST(replace(value, 'small', 'smalL') AS BLOB)")
    ran = p2pd("heads", "verify", *chain.arguments)
    assert ran.code == 1
    name = chain.setting.revision.id.hex()[:10]
    assert f"revision {name} is damaged (revision carries 0 valid" in ran.err


def test_a_flipped_byte_of_an_artifact_is_found(chain: Built) -> None:
    head = chain.decisions[3].head
    flip(chain.blob(head))
    assert verify(chain) == {f"blob {head.hex()}": "chunk 0 was changed"}


def test_a_truncated_artifact_is_found(chain: Built) -> None:
    path = chain.blob(chain.decisions[3].head)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    assert verify(chain) == {f"blob {path.name}": f"{size - 1} bytes, its manifest says {size}"}


def test_every_flipped_byte_of_a_manifest_is_found(chain: Built) -> None:
    path = chain.blob(chain.decisions[3].head).with_suffix(".manifest")
    for offset in range(len(path.read_bytes())):
        flip(path, offset)
        assert list(verify(chain)) == [f"blob {path.stem}"], f"byte {offset}"
        flip(path, offset)


def test_an_artifact_without_its_manifest_is_found(chain: Built) -> None:
    path = chain.blob(chain.decisions[3].head)
    path.with_suffix(".manifest").unlink()
    assert verify(chain) == {f"blob {path.name}": "its manifest is missing"}


def test_what_is_no_artifact_is_named(chain: Built) -> None:
    blobs = chain.data_dir / "blobs"
    whole = chain.blob(chain.decisions[1].head)
    (blobs / "tmp-7").write_bytes(b"")
    (blobs / "notes.txt").write_bytes(b"")
    (blobs / f"{'ab' * 32}.manifest").write_bytes(b"")
    (blobs / f"{'cd' * 32}.part").write_bytes(b"")
    (blobs / f"{whole.name}.damaged").write_bytes(b"")
    assert notes(chain) == {
        f"file {blobs / 'tmp-7'}": "left unfinished",
        f"file {blobs / 'notes.txt'}": "not a file of the store",
        f"blob {'ab' * 32}": "a manifest without its artifact",
        f"blob {'cd' * 32}": "not whole yet",
        f"blob {whole.name}": "an earlier copy was damaged: kept aside",
    }


def test_a_newest_head_that_is_elsewhere_is_named(chain: Built) -> None:
    path = chain.blob(chain.decisions[4].head)
    path.unlink()
    path.with_suffix(".manifest").unlink()
    assert notes(chain) == {f"blob {path.name}": "the head of height 4 is not here"}


NESTEROV = OuterRule("nesterov", 700_000, 900_000)


def test_i04_outer_states_are_verified_like_heads(tmp_path: Path) -> None:
    chain = build_chain(tmp_path, outer=NESTEROV)
    newest, before = (chain.decisions[height].header.outer for height in (4, 3))
    assert newest is not None
    assert before is not None
    assert verify(chain) == {}
    assert p2pd("heads", "show", *chain.arguments, "--json").json["outer"] == newest.hex()
    flip(chain.blob(before))
    assert verify(chain) == {f"blob {before.hex()}": "chunk 0 was changed"}
    flip(chain.blob(before))
    chain.blob(newest).unlink()
    chain.blob(newest).with_name(f"{newest.hex()}.manifest").unlink()
    assert notes(chain) == {f"blob {newest.hex()}": "the outer state of height 4 is not here"}


def test_a_step_may_be_elsewhere_but_what_is_here_by_its_name_is_verified(tmp_path: Path) -> None:
    chain = build_chain(tmp_path, head_codec="int8")
    step = chain.decisions[4].step
    assert step is not None
    assert verify(chain) == {}
    assert p2pd("heads", "show", *chain.arguments, "--json").json["step"] == step.artifact.hex()
    flip(chain.blob(step.artifact))
    assert verify(chain) == {f"blob {step.artifact.hex()}": "chunk 0 was changed"}
    chain.blob(step.artifact).unlink()
    chain.blob(step.artifact).with_name(f"{step.artifact.hex()}.manifest").unlink()
    assert notes(chain) == verify(chain) == {}


@pytest.mark.parametrize("changes", [{"outer": NESTEROV}, {"head_codec": "int8"}])
def test_i04_an_outer_state_or_a_step_that_is_something_else_is_found(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    chain = build_chain(tmp_path, **changes)
    decision = chain.decisions[4]
    assert decision.merged is not None
    swapped = replace(decision.merged, outer=decision.head)
    if decision.merged.step is not None:
        step = replace(decision.merged.step, artifact=decision.head)
        swapped = replace(decision.merged, step=step)
    choices = load_choices(decision.choices, chain.setting.genesis.network)
    other = derive(chain.setting, chain.decisions[3], choices, decision.choices, swapped)
    chain.store(4, dump_record(Record(other, certify(chain.setting, other))))
    assert list(verify(chain)) == [f"blob {decision.head.hex()}"]


def test_what_a_running_node_is_writing_is_no_finding(chain: Built) -> None:
    (chain.data_dir / "blobs" / "tmp-1").write_bytes(b"half")
    with DataDirectory(chain.data_dir):
        assert notes(chain) == {}
    assert notes(chain) == {f"file {chain.data_dir / 'blobs' / 'tmp-1'}": "left unfinished"}


@pytest.mark.parametrize("live", [True, False])
def test_what_a_running_node_removes_meanwhile_is_no_fault(chain: Built, live: bool) -> None:
    found = _blobs(chain.data_dir / "blobs", live=live)
    whole = sorted(
        path.name for path in (chain.data_dir / "blobs").iterdir() if "." not in path.name
    )
    assert next(found) == (bytes.fromhex(whole[0]), None)
    for name in (whole[-1], f"{whole[-1]}.manifest"):
        (chain.data_dir / "blobs" / name).unlink()
    faults = [problem.where for _, problem in found if problem is not None and problem.fault]
    assert faults == ([] if live else [f"blob {whole[-1]}"])
