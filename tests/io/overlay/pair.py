"""Two QUIC machines that exchange their datagrams through memory. Virtual seconds, no socket."""

import copy
from collections.abc import Iterator

from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

from p2pd.io.overlay._aioquic172 import Quic, QuicLimits, configuration
from p2pd.io.overlay.identity import certificate
from tests.io.overlay.bench import LIMITS, identity

CLIENT, SERVER = ("192.0.2.1", 1), ("192.0.2.2", 2)
ALICE, BOB = identity("alice"), identity("bob")


def configured(*, dialling: bool, limits: QuicLimits = LIMITS) -> QuicConfiguration:
    who = ALICE if dialling else BOB
    return configuration(limits, certificate(who), who.private_key, dialling=dialling)


class Pair:
    """A client and a server that exchange their datagrams through memory."""

    def __init__(
        self,
        limits: QuicLimits = LIMITS,
        *,
        client: QuicConfiguration | None = None,
        stock_server: bool = False,
    ) -> None:
        self.now_s = 100.0
        self.client = Quic(
            limits=limits, configuration=client or configured(dialling=True, limits=limits)
        )
        server = configured(dialling=False, limits=limits)
        destination = self.client.original_destination_connection_id
        self.server: Quic = (
            QuicConnection(configuration=server, original_destination_connection_id=destination)  # type: ignore[assignment]
            if stock_server
            else Quic(
                limits=limits, configuration=server, original_destination_connection_id=destination
            )
        )
        self.at_client: list[events.QuicEvent] = []
        self.at_server: list[events.QuicEvent] = []
        self.client.connect(SERVER, self.now_s)
        self.run(20)

    def run(self, turns: int = 100) -> None:
        """Each turn takes 2 ms."""
        for _ in range(turns):
            self.now_s += 0.002
            for source, target, address, seen in (
                (self.client, self.server, CLIENT, self.at_server),
                (self.server, self.client, SERVER, self.at_client),
            ):
                if source.get_peer_address() is None:
                    continue
                wanted_s = source.get_timer()
                if wanted_s is not None and wanted_s <= self.now_s:
                    source.handle_timer(self.now_s)
                run = [data for data, _ in source.datagrams_to_send(self.now_s)]
                self._deliver(target, run, address)
                for event in taken(target):
                    seen.append(event)
                    if isinstance(event, events.StreamReset):
                        target.discard(event.stream_id)

    def _deliver(self, target: Quic, run: list[bytes], address: tuple[str, int]) -> None:
        if isinstance(target, Quic):
            target.receive_run(run, address, self.now_s)
        else:
            for data in run:
                target.receive_datagram(data, address, self.now_s)


def taken(quic: QuicConnection) -> Iterator[events.QuicEvent]:
    while (event := quic.next_event()) is not None:
        yield event


def arrived_bytes(seen: list[events.QuicEvent]) -> int:
    return sum(len(event.data) for event in seen if isinstance(event, events.StreamDataReceived))


def endings(seen: list[events.QuicEvent]) -> list[events.ConnectionTerminated]:
    return [event for event in seen if isinstance(event, events.ConnectionTerminated)]


def twin(quic: Quic) -> Quic:
    """A second machine in the same state; keys and configuration are shared, which never change."""
    shared: list[object] = [quic.tls, quic._configuration, quic._logger]
    shared += quic._crypto_buffers.values()
    for crypto in (*quic._cryptos.values(), *quic._cryptos_initial.values()):
        for context in (crypto.recv, crypto.send):
            shared += [context.aead, context.hp]
    return copy.deepcopy(quic, {id(item): item for item in shared})
