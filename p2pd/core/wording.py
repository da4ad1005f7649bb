"""Numbers in sentences that people read."""


def counted(count: int, noun: str, form: str = "") -> str:
    """`1 fleet`, `0 fleets`, and with form `,` also `2,000 fleets`. Of nouns that only take an s."""
    return f"{count:{form}} {noun}" if count == 1 else f"{count:{form}} {noun}s"
