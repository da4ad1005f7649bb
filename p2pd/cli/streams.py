"""What a process is given to be read and written by: standard streams, and how wide a screen is.

Whoever started this process may have closed some of the streams. A number that is free goes to the next
file that is opened: a ledger that is number 1 would be written into by whatever prints.
"""

import os
import re
import sys

STANDARD = (0, 1, 2)
SIZES = ("COLUMNS", "LINES")
SIZE_MOST = 1000
"""Characters; a picture grows with them."""


def open_closed() -> None:
    """Opens what is closed of 0, 1 and 2. Before anything else is opened.

    Standard output is opened for reading alone: it takes no more than a closed one does, and a command
    that has something to say finds that out. Standard error takes what nobody reads.
    """
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, so it is this one.
            opened = os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
            os.set_inheritable(opened, True)
    # Python has none where it found none. They stay open to the end, as those that it makes do.
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def bound_screen() -> None:
    """Takes from the environment what is no size of a screen, before any library reads it there."""
    for name in SIZES:
        size = os.environ.get(name, "").lstrip("0")
        if not re.fullmatch("[0-9]+", size):
            os.environ.pop(name, None)
        elif len(size) > len(str(SIZE_MOST)) or int(size) > SIZE_MOST:
            os.environ[name] = str(SIZE_MOST)
