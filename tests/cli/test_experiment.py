import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.encoding import encode
from p2pd.tensors.files import write_artifact
from p2pd.tensors.formats import FORMATS
from p2pd.wire.records import load_genesis, load_revision, seal_revision
from tests.cli.chains import build_chain
from tests.cli.commands import Ran, p2pd

WORKLOAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders

def build(config):
    torch.manual_seed(0)
    model = nn.Linear(3, config["classes"])
    data = TensorDataset(torch.zeros(90, 3), torch.zeros(90, dtype=torch.long))
    loader = DataLoader(data, batch_size=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return from_loaders(Learner(model, optimizer), loader, loader)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A directory with a key, a genesis and a workload."""
    key = p2pd("id", "--data-dir", tmp_path / "node", "--json").json["public_key"]
    p2pd(
        *("network", "create", "--name", "lab", "--authority", tmp_path / "node"),
        *("--validator", key, "--out", tmp_path / "genesis.cbor"),
    )
    (tmp_path / "tiny.py").write_text(WORKLOAD)
    return tmp_path


def publish(lab: Path, *more: object) -> Ran:
    return p2pd(
        *("experiment", "publish", "--genesis", lab / "genesis.cbor", "--authority", lab / "node"),
        *("--workload", "tiny", "--workload-path", lab, "--study", "s", "--experiment", "e"),
        *("--name", "r1", "--config", "classes=4", "--out", lab / "r1.revision.cbor", "--no-check"),
        *more,
    )


def test_a_published_revision_is_signed_and_says_what_it_costs(lab: Path) -> None:
    (lab / "tiny.py").write_text("print('chatty')\n" + WORKLOAD)
    words = ["--set", "schedule.max_roster=5", "--set", "canary.accept=0.05", "--json"]
    ran = publish(lab, "--check", *words)
    assert ran.code == 0, ran.err
    assert "p2pd: warning: it prints, 2 lines so far" in ran.err
    genesis = load_genesis((lab / "genesis.cbor").read_bytes()).genesis
    revision = load_revision((lab / "r1.revision.cbor").read_bytes(), genesis).revision
    assert ran.json["revision"] == revision.id.hex()
    assert (revision.workload.module, revision.workload.config) == ("tiny", '{"classes": 4}')
    assert revision.data.samples == 90
    assert revision.canary.accept == 50_000
    head = (lab / "r1.head.safetensors").read_bytes()
    assert manifest_of(ArtifactKind.HEAD, revision.schema.id, head).id == revision.head
    assert ran.json["update_bytes"] == len(head)
    assert ran.json["window_bytes"] == 5 * len(head)
    left = {path.name for path in lab.iterdir()} - {"__pycache__", "tiny.py", "node"}
    assert left == {"genesis.cbor", "r1.head.safetensors", "r1.revision.cbor"}
    listed = p2pd(
        *("experiment", "list", "--genesis", lab / "genesis.cbor", lab / "r1.revision.cbor"),
        "--json",
    )
    assert listed.json[0]["revision"] == revision.id.hex()
    again = publish(lab)
    assert again.code == 2
    assert "r1.revision.cbor: exists already" in again.err


def test_the_codec_is_part_of_the_revision_and_its_bytes_are_what_is_said(lab: Path) -> None:
    settings = (
        "update.codec=int8",
        "update.head_codec=int8",
        "outer.rule=nesterov",
        "outer.lr=1.2",
    )
    ran = publish(lab, *(word for one in settings for word in ("--set", one)), "--json")
    assert "warning: outer.lr 1.2 with momentum 0.9 is beyond 1.02" in ran.err
    assert (ran.json["outer"], ran.json["outer_lr"], ran.json["outer_momentum"]) == (
        ("nesterov", 1.2, 0.9)
    )
    genesis = load_genesis((lab / "genesis.cbor").read_bytes()).genesis
    revision = load_revision((lab / "r1.revision.cbor").read_bytes(), genesis).revision
    assert revision.codec == ran.json["codec"] == "int8"
    path = lab / "update"
    arrays = {
        tensor.name: np.zeros(tensor.shape, FORMATS[tensor.dtype].storage)
        for tensor in revision.update_schema.tensors
    }
    written = write_artifact(path, ArtifactKind.UPDATE, revision.update_schema, arrays)
    assert ran.json["update_bytes"] == ran.json["step_bytes"] == path.stat().st_size
    assert ran.json["outer_bytes"] > 2 * ran.json["head_bytes"] - 1000  # of floats, pairs
    assert revision.schema_of(ArtifactKind.UPDATE).id == written.schema
    assert ran.json["head_bytes"] == (lab / "r1.head.safetensors").stat().st_size


def test_a_workload_that_fails_is_reported_in_its_own_words(lab: Path) -> None:
    (lab / "tiny.py").write_text("def build(config):\n    raise RuntimeError('no data here')\n")
    ran = publish(lab)
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("p2pd: RuntimeError: no data here")
    assert not (lab / "r1.revision.cbor").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ["--set", "schedule.deadline=5"],
            "no setting schedule.deadline: did you mean schedule.deadline_s?",
        ),
        (["--set", "nothing.at.all=5"], "no setting nothing.at.all: there are "),
        (["--set", "schedule.deadline_s"], "must be TABLE.KEY=VALUE"),
        (["--set", "schedule.deadline_s=soon"], "must be a number, got the text 'soon'"),
        (["--set", "schedule.lease_shards=0"], "revision: lease_shards must be at least 1"),
        (["--set", "canary.reject=0.001"], "revision: canary needs samples"),
        (["--set", "merge.rule=median"], "merge rule 'median' is none of"),
        (["--set", "update.codec=int2"], "revision: codec 'int2' is none of f32, bf16, int8"),
        (["--config", "classes"], "--config 'classes' must be KEY=VALUE"),
        (["--config", "classes=5"], "--config classes is given twice"),
    ],
)
def test_what_makes_no_revision_is_refused_before_anything_is_built(
    lab: Path, more: list[str], said: str
) -> None:
    (lab / "tiny.py").unlink()  # it would be missed if it were looked for
    ran = publish(lab, *more)
    assert ran.code == 2
    assert said in ran.err


def test_nothing_is_signed_for_a_workload_that_fails_the_check(lab: Path) -> None:
    (lab / "tiny.py").write_text(WORKLOAD.replace("optimizer)", "optimizer, loss=None)"))
    ran = publish(lab, "--check")
    assert ran.code == 1
    assert "p2pd: TypeError: 'NoneType' object is not callable" in ran.err
    assert not list(lab.glob("r1*"))


def test_who_is_not_of_the_authority_cannot_publish(lab: Path) -> None:
    p2pd("id", "--data-dir", lab / "other")
    ran = p2pd(
        *("experiment", "publish", "--genesis", lab / "genesis.cbor", "--authority", lab / "other"),
        *("--workload", "tiny", "--study", "s", "--experiment", "e", "--name", "r1"),
        *("--out", lab / "r1.revision.cbor"),
    )
    assert ran.code == 2
    assert "0 of the keys given are of this network's authority, 1 must sign" in ran.err


def test_revisions_of_a_node_are_listed(tmp_path: Path) -> None:
    chain = build_chain(tmp_path, heights=1)
    ran = p2pd("experiment", "list", *chain.arguments, "--json")
    assert [row["revision"] for row in ran.json] == [chain.setting.revision.id.hex()]
    assert chain.setting.revision.name in p2pd("experiment", "list", *chain.arguments).out


def test_a_revision_of_another_network_is_refused(lab: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    chain = build_chain(tmp_path / "other", heights=1)
    file = tmp_path / "r.revision.cbor"
    file.write_bytes(b"\x82")
    ran = p2pd("experiment", "list", "--genesis", chain.genesis_file, file)
    assert ran.code == 1
    assert f"{file}: not a revision of this network" in ran.err


def test_an_interrupt_leaves_no_half_made_files(lab: Path) -> None:
    (lab / "tiny.py").write_text(
        "import os, signal\n"
        "def build(config):\n"
        "    os.kill(int(config['parent']), signal.SIGINT)\n"
        "    signal.pause()\n"
    )
    arguments = [
        *("experiment", "publish", "--genesis", lab / "genesis.cbor", "--authority", lab / "node"),
        *("--workload", "tiny", "--workload-path", lab, "--study", "s", "--experiment", "e"),
        *("--name", "r1", "--out", lab / "r1.revision.cbor"),
    ]
    script = (
        # Also where the tests were started with interrupts ignored, as in the background of a script.
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from p2pd.cli import main; "
        "main([*sys.argv[1:], '--config', f'parent={os.getpid()}'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 130
    assert done.stderr == ""
    assert [path.name for path in lab.iterdir() if path.name.startswith(("r1", "tmp-"))] == []


def test_a_misspelt_key_of_a_file_is_named_with_its_line(lab: Path) -> None:
    file = lab / "r1.toml"
    file.write_text("[schedule]\nmax_rooster = 3\n")
    ran = publish(lab, "--from", file)
    assert ran.code == 2
    assert ran.err == (
        f"p2pd: {file}:2: schedule.max_rooster: unknown key; did you mean max_roster?\n"
    )


def test_records_of_another_network_are_said_to_be_so_and_not_to_be_damaged(
    lab: Path, tmp_path: Path
) -> None:
    (tmp_path / "chain").mkdir()
    chain = build_chain(tmp_path / "chain", heights=1)
    record = tmp_path / "r.revision.cbor"
    record.write_bytes(encode(seal_revision(chain.setting.revision, ())))
    asked: tuple[tuple[object, ...], ...] = (
        ("experiment", "list", "--data-dir", chain.data_dir),
        ("experiment", "list", record),
        ("heads", "list", "--data-dir", chain.data_dir),
        ("heads", "verify", "--data-dir", chain.data_dir),
    )
    for words in asked:
        ran = p2pd(*words, "--genesis", lab / "genesis.cbor")
        assert ran.code == 2
        network = chain.setting.genesis.network.hex()[:10]
        assert f": the revision is of network {network}, the genesis of " in ran.err
        assert ran.err.endswith(": name the two that belong together\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "schedule.deadline_s=1e300"], "schedule.deadline_s: this number is too large"),
        (["--set", "merge.clip=1e300"], "merge.clip: this number is too large"),
        (["--set", f"canary.samples={10**30}"], f"canary.samples: {10**30} is too large"),
        (["--set", "schedule.deadline_s=-1"], "deadline_ms and check_limit_ms must be positive"),
        (
            ["--set", "revision.config=nonsense"],
            "revision.config 'nonsense': must be a JSON object",
        ),
        (["--set", 'revision.config="[1]"'], "revision.config '[1]': must be a JSON object"),
        (["--config", "lr=NaN"], "without NaN or Infinity"),
        (["--set", 'revision.config="' + "[" * 30_000 + '"'], "not nested deeply"),
    ],
)
def test_absurd_settings_are_refused_by_name_before_the_workload_is_built(
    lab: Path, words: list[str], said: str
) -> None:
    (lab / "tiny.py").write_text("raise SystemError('it was built')\n")
    ran = publish(lab, *words)
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert said in line
