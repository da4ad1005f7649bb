"""The three standard streams, made whole where whoever started this process had closed some.

A number that is free goes to the next file that is opened: a ledger that is number 1 would be written
into by whatever prints. Source: stdio(3), "undesired side effects".
"""

import os
import sys

STANDARD = (0, 1, 2)


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
