"""The control lane: each message after its length, 4 bytes big-endian; the first is the hello.

A hello is a canonical array whose first field is the protocol version, whatever follows.
"""

from p2pd.core.encoding import decode, decode_plain, encode
from p2pd.core.hello import Hello
from p2pd.core.ids import short
from p2pd.errors import RemoteError

LENGTH_BYTES = 4
HELLO_BYTES_MAX = 4096


def frame(message: bytes) -> bytes:
    return len(message).to_bytes(LENGTH_BYTES) + message


class Deframer:
    """Cuts a byte stream into messages."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._first = True

    @property
    def waiting_bytes(self) -> int:
        """What has come of a message that is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that data completes.

        Raises:
            RemoteError: a message announces more bytes than the limit.
        """
        self._buffer += data
        messages = []
        position = 0
        while len(self._buffer) - position >= LENGTH_BYTES:
            start = position + LENGTH_BYTES
            size = int.from_bytes(self._buffer[position:start])
            limit = HELLO_BYTES_MAX if self._first else self._limit_bytes
            if size > limit:
                raise RemoteError(f"control message of {size} bytes exceeds the limit of {limit}")
            if len(self._buffer) < start + size:
                break
            messages.append(bytes(self._buffer[start : start + size]))
            self._first = False
            position = start + size
        del self._buffer[:position]
        return messages


def encode_hello(hello: Hello) -> bytes:
    return encode(hello)


def check_hello(data: bytes, mine: Hello) -> Hello:
    """The other side's hello.

    Raises:
        RemoteError: not a hello, another protocol version, or another network.
    """
    try:
        plain = decode_plain(data, limit_bytes=HELLO_BYTES_MAX)
    except RemoteError as error:
        raise RemoteError(f"hello cannot be read: {error}") from error
    version = plain[0] if isinstance(plain, list) and plain else None
    if type(version) is not int:
        raise RemoteError("hello does not begin with a protocol version")
    if version != mine.version:
        raise RemoteError(
            f"protocol version {version} does not work with {mine.version}: upgrade the older node"
        )
    hello = decode(Hello, data, limit_bytes=HELLO_BYTES_MAX)
    if hello.network != mine.network:
        raise RemoteError(
            f"network {short(hello.network)} is not {short(mine.network)}: check the genesis"
        )
    return hello
