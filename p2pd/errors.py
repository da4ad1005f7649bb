"""The exceptions that p2pd raises on purpose.

P2pError
|-- LocalError        our caller or our own code broke a rule: a bug
|-- RemoteError       a peer, or bytes from outside, broke a rule: a normal event; refuse and go on
|-- UnreachableError  a peer cannot be talked to now: try another, or later
|-- WorkloadError     the user's program failed: report what it said
|   `-- OtherWorkloadError  what is installed here is not what is wanted: it fails again until a person acts
|-- StoreError        the data directory: which file, and what to do about it
|   `-- NoRoomError   the disk, or what may be used of it, is full: the same works again once there is room
`-- UsageError        what a person typed or configured: which key or flag, and what to do about it
    `-- ProblemsError  several things at once, a line each
"""

import errno
import re
from collections.abc import Iterable

ADVICE = {
    errno.ENOENT: "there is no such file or directory: look at the path",
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "the file system is read-only: choose another directory, or remount it",
    errno.EACCES: "permission denied: check owner and mode of the file and its directory",
    errno.EPERM: "operation not permitted: check owner and mode of the file and its directory",
    errno.ENOTDIR: "a part of the path is a file, not a directory: look at the path",
    errno.EISDIR: "it is a directory, not a file: name a file",
    errno.EEXIST: "there is a file of that name already: choose another name, or move it away",
    errno.EIO: "input/output error: the disk is failing",
    errno.ELOOP: "a symbolic link without an end, or where none may be: put the file itself here",
    errno.ENAMETOOLONG: "the name is too long: choose another",
    errno.EAGAIN: "nothing can be read of it now: name a file",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
}
"""What the operating system says of files, and what to do about it."""


QUOTED = re.compile(r"(?<!\w)(['\"])((?:(?!\1).){80})(?:(?!\1).)+\1(?!\w)")
WORD = re.compile(r"(\S{80})\S{4016,}?(?=:?(?:\s|$))")
"""Longer than any path can be. Of what somebody typed or wrote the beginning is enough."""


class P2pError(Exception):
    """Anything that p2pd raises on purpose. The message is one line that a person can act on."""


class LocalError(P2pError):
    pass


class RemoteError(P2pError):
    pass


class UnreachableError(P2pError):
    pass


class WorkloadError(P2pError):
    pass


class OtherWorkloadError(WorkloadError):
    pass


class StoreError(P2pError):
    pass


class NoRoomError(StoreError):
    pass


class UsageError(P2pError):
    pass


class ProblemsError(UsageError):
    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def lines_of(error: P2pError) -> list[str]:
    """What is said of an error. Each is one line, whatever name of a file stands in it."""
    said = error.lines if isinstance(error, ProblemsError) else (str(error),)
    return [WORD.sub(r"\1...", QUOTED.sub(r"\1\2...\1", printable(line))) for line in said]


def printable(text: str) -> str:
    """Foreign words as one line that a terminal only shows, and that can be encoded."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def advice(error: OSError) -> str:
    """What is wrong with a file and what to do about it, in one line."""
    return ADVICE.get(error.errno or 0, error.strerror or str(error))
