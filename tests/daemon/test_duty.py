from pathlib import Path

import pytest

from p2pd.config.node import TrainerSettings
from p2pd.daemon.duty import Duty
from p2pd.errors import UsageError
from p2pd.node.plugins import load_role

MONDAY = 0
NIGHT = TrainerSettings(hours=("20:00-08:00",))


class Resting:
    def __init__(self, role: str = "trainer") -> None:
        self.plugin = load_role(role)
        self.paused = ""
        self.told: list[str] = []

    def pause(self, why: str) -> None:
        self.paused = why
        self.told.append(why)


def test_the_owners_word_holds_over_restarts_until_the_next_one(tmp_path: Path) -> None:
    node = Resting()
    duty = Duty(tmp_path, TrainerSettings(), node)
    assert (node.told, duty.resume()) == ([], {"paused": ""})
    assert duty.pause() == {"paused": "p2pd resume ends it"}
    duty.pause()
    again = Resting()
    duty = Duty(tmp_path, TrainerSettings(), again)
    assert (node.told, again.told) == (["p2pd resume ends it"], ["p2pd resume ends it"])
    assert duty.resume() == {"paused": ""}
    Duty(tmp_path, TrainerSettings(), last := Resting())
    assert (again.paused, last.told) == ("", [])


def test_outside_of_its_hours_a_trainer_rests_and_says_until_when(tmp_path: Path) -> None:
    node, minute = Resting(), 12 * 60
    duty = Duty(tmp_path, NIGHT, node, clock=lambda: (MONDAY, minute))
    assert node.told == ["trainer.hours begin at 20:00"]
    minute = 20 * 60
    duty.look()
    assert duty.pause() == {"paused": "p2pd resume ends it"}
    assert duty.resume() == {"paused": ""}
    minute = 8 * 60
    assert duty.look() == {"paused": "trainer.hours begin at 20:00"}


def test_only_a_trainer_can_be_paused(tmp_path: Path) -> None:
    node = Resting("validator")
    duty = Duty(tmp_path, NIGHT, node, clock=lambda: (MONDAY, 12 * 60))
    assert node.told == []
    with pytest.raises(UsageError, match="this node is a validator: only a trainer can be paused"):
        duty.pause()


def test_a_trainer_without_a_worker_rests_and_says_so(tmp_path: Path) -> None:
    node, why = Resting(), "no script drives it"
    duty = Duty(tmp_path, TrainerSettings(), node, lambda: why)
    assert node.paused == "no script drives it"
    why = ""
    assert duty.look() == {"paused": ""}
