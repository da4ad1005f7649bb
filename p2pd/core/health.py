"""What of a node does not work as it should, by source, for as long as it does not."""


class Health:
    """Whoever notes a trouble clears it once it is over; the status shows what is left."""

    def __init__(self) -> None:
        self._troubles: dict[str, str] = {}

    def note(self, source: str, why: str) -> None:
        """Why, in one line, is what a person reads; a newer one of the same source replaces it."""
        self._troubles[source] = why

    def clear(self, source: str) -> None:
        self._troubles.pop(source, None)

    def troubles(self) -> tuple[str, ...]:
        """Each begins with its source; the oldest first."""
        return tuple(f"{source}: {why}" for source, why in self._troubles.items())
