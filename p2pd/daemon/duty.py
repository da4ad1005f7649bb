"""Whether a trainer works now: its owner's word, which outlives restarts, its hours, and whether anything trains."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import trio

from p2pd.config.node import TrainerSettings
from p2pd.core.hours import are_open, next_open, parse_hours
from p2pd.errors import UsageError
from p2pd.io.durable import storing, write_durably
from p2pd.ports import RolePlugin

log = logging.getLogger("p2pd.daemon")

FILE = "paused"
"""In the data directory, while its owner wants the trainer to rest."""
LOOK_S = 10.0
"""Between two looks at the clock."""
PAUSED = "p2pd resume ends it"


def local_time() -> tuple[int, int]:
    """Day of the week, and minute of the day."""
    now = time.localtime()
    return now.tm_wday, now.tm_hour * 60 + now.tm_min


class Resting(Protocol):
    """What it asks of a node."""

    plugin: RolePlugin
    paused: str

    def pause(self, why: str) -> None: ...


class Duty:
    def __init__(
        self,
        directory: Path,
        settings: TrainerSettings,
        node: Resting,
        resting: Callable[[], str] = lambda: "",
        clock: Callable[[], tuple[int, int]] = local_time,
    ) -> None:
        """resting: why its worker can train nothing, if so."""
        self._file = directory / FILE
        self._hours = [parse_hours(text) for text in settings.hours]
        self._node = node
        self._resting = resting
        self._clock = clock
        self.look()

    def pause(self) -> dict[str, Any]:
        """
        Raises:
            UsageError: it is no trainer.
            StoreError: the disk is full or failing.
        """
        self._require_trainer()
        write_durably(self._file, b"")
        return self.look()

    def resume(self) -> dict[str, Any]:
        """Raises as pause."""
        self._require_trainer()
        with storing(self._file):
            self._file.unlink(missing_ok=True)
        return self.look()

    async def run(self) -> None:
        while True:
            await trio.sleep(LOOK_S)
            self.look()

    def look(self) -> dict[str, Any]:
        """Has the trainer do what holds now, and says why it rests; empty where it works."""
        why = self._why()
        if why != self._node.paused:
            log.info("the trainer rests: %s", why) if why else log.info("the trainer works")
            self._node.pause(why)
        return {"paused": why}

    def _why(self) -> str:
        if self._node.plugin.name != "trainer":
            return ""
        with storing(self._file):
            if self._file.exists():
                return PAUSED
        if self._hours and not are_open(self._hours, *self._clock()):
            return f"trainer.hours begin at {next_open(self._hours, *self._clock())}"
        return self._resting()

    def _require_trainer(self) -> None:
        role = self._node.plugin.name
        if role != "trainer":
            raise UsageError(f"this node is a {role}: only a trainer can be paused")
