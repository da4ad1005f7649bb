"""The floor of a transfer over QUIC: aioquic's own asyncio server and client, as its manual shows them. Bytes.

    python -m p2pd.bench.floor_aioquic serve DATAGRAM_BYTES SIZE_BYTES
    python -m p2pd.bench.floor_aioquic fetch DATAGRAM_BYTES SIZE_BYTES PORT

From memory to memory, one stream, nothing hashed and nothing written: less than a transfer does.
"""

import asyncio
import ssl
import sys
from time import perf_counter, process_time

from aioquic.asyncio.client import connect
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration

from p2pd.bench.children import tell_parent
from p2pd.io.overlay import Identity
from p2pd.io.overlay.identity import certificate

HOST = "127.0.0.1"
ALPN = ["bench"]
PIECE = bytes(2**20)
READ_BYTES = 2**16


async def offer(datagram_bytes: int, size_bytes: int) -> None:
    identity = Identity(bytes(32))
    configuration = QuicConfiguration(
        is_client=False,
        alpn_protocols=ALPN,
        certificate=certificate(identity),
        private_key=identity.private_key,
        max_datagram_size=datagram_bytes,
    )

    def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(size_bytes // len(PIECE)):
            writer.write(PIECE)
        writer.write_eof()

    server = await serve(HOST, 0, configuration=configuration, stream_handler=answer)
    transport = server._transport  # noqa: SLF001  # nothing else tells the port
    assert transport is not None
    tell_parent(port=transport.get_extra_info("sockname")[1])
    await asyncio.to_thread(sys.stdin.read)
    server.close()


async def fetch(datagram_bytes: int, size_bytes: int, port: int) -> None:
    configuration = QuicConfiguration(
        alpn_protocols=ALPN,
        verify_mode=ssl.CERT_NONE,
        max_datagram_size=datagram_bytes,
    )
    async with connect(HOST, port, configuration=configuration) as client:
        started_s, started_cpu_s = perf_counter(), process_time()
        reader, writer = await client.create_stream()
        writer.write(b"?")
        writer.write_eof()
        received_bytes = 0
        while data := await reader.read(READ_BYTES):
            received_bytes += len(data)
        assert received_bytes == size_bytes // len(PIECE) * len(PIECE)
        tell_parent(
            seconds=perf_counter() - started_s,
            cpu_s=process_time() - started_cpu_s,
            received_bytes=received_bytes,
        )


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    asyncio.run((offer if what == "serve" else fetch)(*map(int, numbers)))
