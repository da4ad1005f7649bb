import os
from pathlib import Path

import numpy as np
import pytest

from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, TrainJob
from p2pd.errors import StoreError, WorkloadError
from p2pd.tensors.codecs import codec_of
from p2pd.tensors.files import TensorFile
from p2pd.workload.protocol import BuildCall, InitialCall, TrainCall
from p2pd.workload.session import Session

DIGITS = BuildCall("p2pd.workloads.digits", '{"hidden": 8}', 1)


class Trainer:
    """A trainer's directories, and a process that may end and start again."""

    def __init__(self, root: Path, codec: str = "int8") -> None:
        self.root, self.codec = root, codec
        self.own = root / "own" / "revision"
        self.count = 0
        self.restart()
        self.session.initial(InitialCall(os.fsencode(root / "base")))

    def restart(self) -> None:
        self.session = Session(DIGITS)

    def train(self, height: int, own: Path | None = None) -> bytes:
        """The update of a lease of that height, always from the first head."""
        self.count += 1
        path = self.root / f"update-{self.count}"
        progress = Progress(0, 0, 0, 0, 0)
        job = TrainJob(
            height, ArtifactId(bytes(32)), (height % 40,), 32, progress, height, codec=self.codec
        )
        base, output = os.fsencode(self.root / "base"), os.fsencode(path)
        self.session.train(TrainCall(job, base, output, os.fsencode(own or self.own)), lambda: None)
        return path.read_bytes()

    def files(self) -> list[Path]:
        """What the codec lost, by the height of the lease."""
        found = self.own.glob("residual-*.safetensors")
        return sorted(found, key=lambda path: int(path.name.split("-")[1]))


def test_what_the_codec_lost_survives_a_restart_and_goes_into_the_next_update(
    tmp_path: Path,
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "three").mkdir()
    steady, restarted, forgetful = (Trainer(tmp_path / name) for name in ("one", "two", "three"))
    for trainer in (steady, restarted, forgetful):
        trainer.train(1)
    for trainer in (steady, restarted, forgetful):
        trainer.restart()
    forgetful.files()[0].unlink()
    first, second, third = (trainer.train(2) for trainer in (steady, restarted, forgetful))
    assert first == second
    assert first != third


def test_i10_a_lease_that_is_trained_again_starts_from_the_same_residual(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path)
    trainer.train(1)
    trainer.restart()
    before_the_crash = trainer.train(2)
    trainer.restart()
    assert trainer.train(2) == before_the_crash


def test_only_the_last_residuals_are_kept(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path)
    for height in (9, 10, 11, 100):
        trainer.train(height)
    assert [path.name.split("-")[1] for path in trainer.files()] == ["11", "100"]


def test_a_trainer_that_was_away_goes_on_without_what_it_lost_before(tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    (tmp_path / "gone").mkdir()
    found = {}
    for height in (9, 10):  # after a lease at height 1
        with_it, without = Trainer(tmp_path / "back"), Trainer(tmp_path / "gone")
        with_it.train(1)
        with_it.restart()
        for path in with_it.own.glob("inner-*"):
            path.unlink()  # so that the optimizer begins anew in both
        found[height] = with_it.train(height) != without.train(height)
        for trainer in (with_it, without):
            for path in (
                *trainer.root.glob("update-*"),
                trainer.root / "base",
                *trainer.own.iterdir(),
            ):
                path.unlink()
    assert found == {9: True, 10: False}


def test_a_damaged_residual_is_named_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = Trainer(tmp_path)
    without = trainer.train(2)
    trainer.restart()
    (second,) = trainer.files()
    second.rename(damaged := second.with_name(second.name.replace("-2-", "-1-")))
    damaged.write_bytes(b"torn")
    for path in trainer.own.glob("inner-*"):
        path.unlink()  # so that the optimizer begins anew as well
    (trainer.own / "residual-x.safetensors").write_bytes(b"a stranger")
    assert trainer.train(2) == without
    assert f"{damaged} is damaged and was not used" in capsys.readouterr().out


def test_plain_updates_lose_nothing(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, "f32")
    trainer.train(1)
    assert trainer.files() == []


def test_without_a_usable_directory_a_lossy_codec_does_not_train(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        trainer.train(1, tmp_path / "file")
    job = TrainJob(1, ArtifactId(bytes(32)), (1,), 32, Progress(0, 0, 0, 0, 0), 1, codec="int8")
    call = TrainCall(job, os.fsencode(tmp_path / "base"), os.fsencode(tmp_path / "out"))
    with pytest.raises(WorkloadError, match="codec int8 needs a directory"):
        trainer.session.train(call, lambda: None)


@pytest.mark.parametrize("codec", ["bf16", "int8", "int4"])
def test_an_update_decodes_to_what_was_trained_but_for_the_codecs_error(
    tmp_path: Path, codec: str
) -> None:
    (tmp_path / "plain").mkdir()
    plain, coded = Trainer(tmp_path / "plain", "f32"), Trainer(tmp_path, codec)
    plain.train(1)
    coded.train(1)
    base = TensorFile(tmp_path / "base")
    exact, update = TensorFile(tmp_path / "plain" / "update-1"), TensorFile(tmp_path / "update-1")
    made = codec_of(codec, plain.session.info().schema)
    for index, _ in enumerate(base.tensors):
        span = slice(0, base.values(index, slice(None)).size)
        wanted = exact.values(index, span)
        moved = np.abs(wanted - base.values(index, span)).max()
        assert moved > 0
        assert np.abs(made.values(update, base, index, span) - wanted).max() < moved / (
            12 if codec == "int4" else 100
        )


def test_i10_what_the_codec_lost_is_durable_by_its_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(tmp_path)
    synced: list[tuple[Path, list[Path]]] = []

    def seen(directory: Path) -> None:
        synced.append((directory, trainer.files()))

    monkeypatch.setattr("p2pd.workload.generations.sync_directory", seen)
    trainer.train(1)
    assert synced == [
        (trainer.own, trainer.files()),
        (trainer.own.parent, trainer.files()),
    ]
    assert len(trainer.files()) == 1
