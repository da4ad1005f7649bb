"""A part of the time of a device: after each step a rest, as long as the share asks for. Units: seconds."""


class Share:
    def __init__(self, share: float) -> None:
        """share: of the time that is not spent resting; above 0, at most 1."""
        self._rest_per_s = 1 / share - 1
        self._since_s: float | None = None

    def rest_s(self, now_s: float) -> float:
        """How long to rest now, between two steps; the first one after leave or the start has no step before it."""
        return 0.0 if self._since_s is None else (now_s - self._since_s) * self._rest_per_s

    def work(self, now_s: float) -> None:
        """A step begins."""
        self._since_s = now_s

    def leave(self) -> None:
        """What follows is no step."""
        self._since_s = None
