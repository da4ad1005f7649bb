"""The exceptions that p2pd raises on purpose.

P2pError
|-- LocalError        our caller or our own code broke a rule: a bug
|-- RemoteError       a peer, or bytes from outside, broke a rule: a normal event; refuse and go on
|-- UnreachableError  a peer cannot be talked to now: try another, or later
|-- WorkloadError     the user's program failed: report what it said
|-- StoreError        the data directory: which file, and what to do about it
|   `-- NoRoomError   the disk, or what may be used of it, is full: the same works again once there is room
`-- UsageError        what a person typed or configured: which key or flag, and what to do about it
"""


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


class StoreError(P2pError):
    pass


class NoRoomError(StoreError):
    pass


class UsageError(P2pError):
    pass
