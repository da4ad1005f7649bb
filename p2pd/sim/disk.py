"""The disk under a simulated node: full for a while, or slow. Seconds are virtual."""

from dataclasses import dataclass
from random import Random

from p2pd.errors import NoRoomError
from p2pd.sim.clock import pause


@dataclass(slots=True)
class Disk:
    dice: Random
    full: bool = False
    """Writes fail until there is space again; what is there can be read."""
    slow_s: float = 0.0
    """The most that a write takes longer."""

    def check_room(self) -> None:
        if self.full:
            raise NoRoomError("no space left on the simulated disk: it comes back later")

    async def sync(self, least_s: float) -> None:
        """As long as a write takes until it is on stable storage."""
        slow_s = self.dice.uniform(0.0, self.slow_s) if self.slow_s else 0.0
        await pause(least_s + slow_s)
