"""Revisions that begin with given weights, or go on from the head of another one."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import trio

from p2pd.config.loading import Override, load
from p2pd.config.schema import keys_of
from p2pd.core.codecs import CODECS
from p2pd.core.decision import Record
from p2pd.core.derive import Setting, genesis_decision
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.ids import DecisionId
from p2pd.core.revision import Origin, Revision
from p2pd.core.work import WorkloadInfo
from p2pd.daemon.beginning import settings_of
from p2pd.daemon.publish import PUBLISH_TABLES, PublishRequest, revision_of
from p2pd.io.ledger import SqliteLedger
from p2pd.ports import Table, Write
from p2pd.tensors.layout import layout_of
from p2pd.wire.records import load_genesis, load_revision, seal_revision
from tests.cli.chains import AUTHORITY, SCHEMA, Built, build_chain, flip
from tests.cli.commands import Ran, p2pd

WORKLOAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders

def build(config):
    torch.manual_seed(0)
    model = nn.Linear(3, config["classes"], bias=False)
    data = TensorDataset(torch.randn(90, 3), torch.arange(90) % config["classes"])
    loader = DataLoader(data, batch_size=5)
    return from_loaders(Learner(model, torch.optim.SGD(model.parameters(), lr=0.1)), loader, loader)
"""


@pytest.fixture
def chain(tmp_path: Path) -> Built:
    """With its authority's key, its record and a workload of the same tensors."""
    built = build_chain(tmp_path)
    (tmp_path / "key").write_text(AUTHORITY.seed.hex() + "\n")
    (tmp_path / "key").chmod(0o600)
    signed = seal_revision(built.setting.revision, (AUTHORITY,))
    (tmp_path / "old.revision.cbor").write_bytes(encode(signed))
    (tmp_path / "plain.py").write_text(WORKLOAD)
    return built


def publish(root: Path, *more: object, classes: int = 2) -> Ran:
    return p2pd(
        *("experiment", "publish", "--genesis", root / "genesis.cbor", "--authority", root / "key"),
        *("--workload", "plain", "--workload-path", root, "--config", f"classes={classes}"),
        *("--name", "r2", "--out", root / "r2.revision.cbor", *more),
    )


def after(root: Path) -> tuple[object, ...]:
    return ("--after", root / "old.revision.cbor", "--data-dir", root / "node")


def published(root: Path) -> Revision:
    genesis = load_genesis((root / "genesis.cbor").read_bytes()).genesis
    return load_revision((root / "r2.revision.cbor").read_bytes(), genesis).revision


def test_a_revision_goes_on_from_the_newest_certified_head_of_another(
    chain: Built, tmp_path: Path
) -> None:
    ran = publish(tmp_path, *after(tmp_path), "--set", "schedule.max_roster=3")
    assert ran.code == 0, ran.err
    old, newest = chain.setting.revision, chain.decisions[-1]
    assert f"begins     from height 4 of revision {old.id.hex()[:10]}, decision " in ran.out
    assert "begins     with accuracy " in ran.out
    assert f"begins     with schedulers at step {newest.state.progress.steps}\n" in ran.out
    revision = published(tmp_path)
    assert revision.origin == Origin(old.id, 4, newest.id)
    assert revision.head == newest.head
    assert (tmp_path / "r2.head.safetensors").read_bytes() == chain.blob(newest.head).read_bytes()
    assert (revision.study, revision.experiment, revision.name) == ("digits", "small", "r2")
    steps = newest.state.progress.steps
    assert steps > 0
    assert revision.schedule == replace(old.schedule, max_roster=3, start_steps=steps)
    assert genesis_decision(Setting(chain.setting.genesis, revision)).state.progress.steps == steps
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp-")] == []
    listed = p2pd(
        *("experiment", "list", "--genesis", chain.genesis_file, tmp_path / "r2.revision.cbor"),
        "--json",
    )
    assert listed.json[0]["origin"] == {
        "revision": old.id.hex(),
        "height": 4,
        "decision": newest.id.hex(),
    }
    check_lookups(chain, revision, tmp_path)


def check_lookups(chain: Built, revision: Revision, root: Path) -> None:
    """Whoever has the old chain can check where the new revision came from."""
    keep(root / "node", chain.setting.genesis, revision)
    same = verify(chain, root / "node", revision)
    assert "certified there, with this very head" in same.out
    other = root / "other"
    other.mkdir(mode=0o700)
    keep(other, chain.setting.genesis, revision)
    alone = verify(chain, other, revision)
    assert alone.code == 0
    assert "that chain is not here: name a directory that has it by --origin-dir" in alone.out
    named = verify(chain, other, revision, "--origin-dir", root / "node")
    assert "certified there, with this very head" in named.out
    for number, false in enumerate(
        (
            replace(revision, origin=Origin(chain.setting.revision.id, 3, chain.decisions[4].id)),
            replace(revision, head=chain.decisions[2].head),
        )
    ):
        keep(other, chain.setting.genesis, false)
        ran = verify(chain, other, false, "--origin-dir", root / "node")
        assert ran.code == 1
        assert ("certified there is decision", "certified there is head")[number] in ran.out


def keep(data_dir: Path, genesis: Genesis, revision: Revision) -> None:
    """What a node has that was started with a revision."""
    record = Record(genesis_decision(Setting(genesis, revision)), None)
    writes = [
        Write(Table.REVISIONS, revision.id, encode(seal_revision(revision, (AUTHORITY,)))),
        Write(Table.DECISIONS, revision.id + bytes(8), encode(record)),
    ]
    with SqliteLedger(data_dir / "ledger.sqlite") as ledger:
        trio.run(ledger.commit, writes)


def verify(chain: Built, data_dir: Path, revision: Revision, *more: object) -> Ran:
    return p2pd(
        *("heads", "verify", "--genesis", chain.genesis_file, "--data-dir", data_dir),
        *("--revision", revision.id.hex(), *more),
    )


def test_given_weights_become_the_first_head_and_are_measured(tmp_path: Path) -> None:
    build_chain(tmp_path)
    (tmp_path / "key").write_text(AUTHORITY.seed.hex() + "\n")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "plain.py").write_text(WORKLOAD)
    weights = layout_of(SCHEMA.tensors).header + bytes(range(24))
    (tmp_path / "mine.safetensors").write_bytes(weights)
    names = ("--study", "s", "--experiment", "e", "--weights", tmp_path / "mine.safetensors")
    other = publish(tmp_path, *names, classes=4)
    assert other.code == 1
    assert "tensor 'weight' has shape [2, 3], not [4, 3]" in other.err
    assert not (tmp_path / "r2.revision.cbor").exists()
    ran = publish(tmp_path, *names, "--set", "schedule.start_steps=70", "--json")
    assert ran.code == 0, ran.err
    assert (tmp_path / "r2.head.safetensors").read_bytes() == weights
    assert 0 < ran.json["head_loss"] < 10
    assert (ran.json["start_steps"], ran.json["origin"]) == (70, None)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--weights", "model.pt"], "model.pt: a file of torch.save, which is pickled and never"),
        (["--weights", "none"], "none: there is no such file"),
        (["--weights", "key"], "key: not safetensors: header of"),
        (["--after", "old.revision.cbor"], "--data-dir a node that has its chain: name both"),
        (["--data-dir", "node"], "--data-dir a node that has its chain: name both"),
        (
            ["--weights", "key", "--after", "old.revision.cbor", "--data-dir", "node"],
            "--weights and --after both say where to begin",
        ),
    ],
)
def test_a_beginning_that_is_none_is_refused_before_anything_is_built(
    chain: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").unlink()  # it would be missed if it were looked for
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04" + bytes(100))
    ran = publish(tmp_path, "--study", "s", "--experiment", "e", *more)
    assert ran.code in (1, 2)
    assert said in ran.err
    assert chain.data_dir.exists()


def test_nothing_goes_on_from_a_chain_that_does_not_hold_or_a_head_that_is_gone(
    chain: Built, tmp_path: Path
) -> None:
    head = chain.blob(chain.decisions[-1].head)
    flip(head)
    ran = publish(tmp_path, *after(tmp_path))
    assert (ran.code, "chunk 0 was changed: go on from another node" in ran.err) == (1, True)
    head.unlink()
    ran = publish(tmp_path, *after(tmp_path))
    assert (ran.code, "the head of height 4 is not kept here" in ran.err) == (1, True)
    chain.store(3, chain.stored(2))
    ran = publish(tmp_path, *after(tmp_path))
    assert (ran.code, "height 3: " in ran.err) == (1, True)
    assert "see `p2pd heads verify`, go on from another node" in ran.err


def test_the_settings_of_a_revision_are_those_it_was_published_by(chain: Built) -> None:
    """Whatever is set, nothing is forgotten when another revision goes on from it."""
    given: dict[str, dict[str, object]] = {
        "revision": {"study": "s", "experiment": "e", "workload": "w", "config": '{"a": 1}'},
        "schedule": {
            "shard_samples": 3, "lease_shards": 5, "max_lease_shards": 6, "max_roster": 7,
            "deadline_s": 8.5, "settle_s": 9.5, "check_limit_s": 10.5, "end_heads": 11,
            "end_epochs": 12, "lookahead": 1, "reconcile": "replace", "own_weight": 0.25, "start_steps": 13,
            "target_band": 0.5,
        },
        "update": {"codec": CODECS[2], "head_codec": "int8"},
        "merge": {"rule": "trimmed_mean", "clip": 3.25, "trim": 0.25},
        "outer": {"rule": "nesterov", "lr": 0.75, "momentum": 0.875},
        "canary": {"samples": 14, "accept": 0.03125, "reject": 0.5},
    }  # fmt: skip
    for name, kind in PUBLISH_TABLES.items():
        keys = keys_of(kind).keys() - {"name", "target"}
        assert given[name].keys() == keys, "a new setting: give it here"
    tables = load(None, PUBLISH_TABLES, [Override("--name", "revision", "name", "r")], given)
    request = PublishRequest(
        examine=False, genesis=chain.setting.genesis, signers=(), out=Path("r"), log=print, **tables
    )
    info = WorkloadInfo(SCHEMA, 90, 90, "accuracy", True, bytes(32))
    revision = revision_of(request, info, chain.setting.revision.head)
    assert settings_of(revision) == given


def test_an_origin_names_a_decision() -> None:
    with pytest.raises(ValueError, match="a decision of a revision"):
        Origin(chain_id := DecisionId(bytes(31)), 0, chain_id)  # type: ignore[arg-type]
    assert [field.name for field in fields(Origin)] == ["revision", "height", "decision"]
