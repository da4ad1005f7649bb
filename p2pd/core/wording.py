"""Numbers and foreign words in sentences that people read."""


def counted(count: int, noun: str, form: str = "") -> str:
    """`1 fleet`, `0 fleets`, and with form `,` also `2,000 fleets`. Of nouns that only take an s."""
    return f"{count:{form}} {noun}" if count == 1 else f"{count:{form}} {noun}s"


def printable(text: str) -> str:
    """Foreign words as one line that a terminal only shows, and that can be encoded."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
