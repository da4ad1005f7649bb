"""The floor of a transfer over TCP: Python's own TLS on blocking sockets, from memory to memory. Bytes.

python -m p2pd.bench.floor_tls serve SIZE_BYTES
python -m p2pd.bench.floor_tls fetch SIZE_BYTES PORT
"""

import socket
import ssl
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from p2pd.bench.children import tell_parent
from p2pd.io.overlay import Identity
from p2pd.io.overlay.identity import certificate

HOST = "127.0.0.1"
PIECE = bytes(2**20)


def offer(size_bytes: int) -> None:
    identity = Identity(bytes(32))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    key = identity.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "both.pem"
        path.write_bytes(key + certificate(identity).public_bytes(Encoding.PEM))
        context.load_cert_chain(path)
    with socket.create_server((HOST, 0)) as listener:
        tell_parent(port=listener.getsockname()[1])
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as stream:
            for _ in range(size_bytes // len(PIECE)):
                stream.sendall(PIECE)


def fetch(size_bytes: int, port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    buffer = bytearray(2**20)
    with context.wrap_socket(socket.create_connection((HOST, port))) as stream:
        started_s, started_cpu_s = perf_counter(), process_time()
        received_bytes = 0
        while received_bytes < size_bytes // len(PIECE) * len(PIECE):
            count = stream.recv_into(buffer)
            assert count  # the server sends all of it
            received_bytes += count
        tell_parent(
            seconds=perf_counter() - started_s,
            cpu_s=process_time() - started_cpu_s,
            received_bytes=received_bytes,
        )


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    (offer if what == "serve" else fetch)(*map(int, numbers))
