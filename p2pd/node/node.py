"""One node: hears its links, verifies and hands on what it hears, answers requests, and lets its roles run."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import trio

from p2pd.core.derive import Setting
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.governance import SignedGovernance
from p2pd.core.health import Health
from p2pd.core.ids import ArtifactId, PeerId, RevisionId, digest, peer_id, short
from p2pd.core.revision import SignedRevision
from p2pd.core.talk import (
    Decided,
    GetChoices,
    GetChunk,
    GetFarthest,
    GetGovernance,
    GetHeld,
    GetManifest,
    GetPeers,
    GetRecords,
    GetRevision,
    GovernanceTip,
    Holdings,
    Inventory,
    Objects,
    Records,
    Talk,
    Tip,
    load_talk,
)
from p2pd.core.trainer import Paused, Resumed
from p2pd.errors import RemoteError
from p2pd.node.catch_up import RECORDS_BYTES
from p2pd.node.conduct import FAULTS_MOST, Conduct, cost_of, cost_of_answer
from p2pd.node.data_files import OFFER, DataFiles, Givers
from p2pd.node.diary import Diary
from p2pd.node.discovery import Discovery, DiscoverySettings, Seed
from p2pd.node.governance import GovernanceLog
from p2pd.node.lane import Lane
from p2pd.node.patience import PatientLedger
from p2pd.node.sources import Sources
from p2pd.node.supervision import Supervision, Task, Unsupervised
from p2pd.node.transfer import Transfer
from p2pd.ports import (
    BlobStore,
    DataSource,
    Ledger,
    Link,
    Math,
    RolePlugin,
    Signer,
    Transport,
    Worker,
)
from p2pd.wire.envelope import load

log = logging.getLogger("p2pd.node")

MAX_HEIGHT = 2**63
TELL_S = 1.0
"""A node that leaves may take so long to tell others."""
OFFENCE = FAULTS_MOST // 5
"""In faults."""
RECORDS_ANSWER_BYTES = RECORDS_BYTES - 1024 * 1024


@dataclass(frozen=True, slots=True)
class Parts:
    """What the composition root chose for this node."""

    signer: Signer
    transport: Transport
    ledger: Ledger
    blobs: BlobStore
    math: Math
    worker: Worker
    dice: Random
    now_ms: Callable[[], int]
    """Wall clock, for peer records only."""
    share: float = 1.0
    """Of its time in which a trainer works, for people."""
    keep_every: int = 0
    """Of so many promoted heads one is kept for good; 0 for none."""
    data_quota_bytes: int = 0
    """What fetched files of data sets may take in the store; 0 for all of it."""
    data_sources: Sequence[DataSource] = ()
    """Where such files come from that no peer gives."""
    has_data: bool = False
    """It has whole data sets to give, and says so."""
    health: Health = field(default_factory=Health)
    supervision: Supervision = field(default_factory=Unsupervised)


class Node:
    """Implements LinkHandler for its transport and Hub for its lanes."""

    def __init__(
        self, parts: Parts, genesis: Genesis, plugin: RolePlugin, seeds: Sequence[Seed]
    ) -> None:
        self.signer = parts.signer
        self.transport = parts.transport
        self.health = parts.health
        self.keep_every = parts.keep_every
        self.share = parts.share
        self.paused = ""
        """Why its trainer rests; empty where it works."""
        self.ledger: Ledger = PatientLedger(parts.ledger, parts.health)
        self.blobs = parts.blobs
        self.math = parts.math
        self.worker = parts.worker
        self.supervision = parts.supervision
        self.genesis = genesis
        self.plugin = plugin
        self.lanes: dict[RevisionId, Lane] = {}
        self.heard: Counter[str] = Counter()
        """Objects by kind that came in."""
        self.refused: Counter[str] = Counter()
        """Why objects were refused, by the first words of the reason."""
        self.joined = trio.Event()
        """It has met somebody."""
        self._open = False
        self.conduct = Conduct(peer_id(seat.key) for seat in genesis.validators)
        secret = self.signer.sign(b"p2pd private samples" + genesis.network)
        self.private_seed = int.from_bytes(digest("private-seed", secret)[:8])
        settings = DiscoverySettings(
            network=genesis.network,
            roles=(*plugin.offers, OFFER) if parts.has_data else plugin.offers,
            seeds=tuple(seeds),
        )
        self.discovery = Discovery(
            parts.transport, self.ledger, parts.signer, parts.dice, parts.now_ms, settings
        )
        self.transfer = Transfer(
            parts.transport,
            parts.blobs,
            parts.dice,
            allowed=self._may_have,
            reach=self.discovery.reach,
        )
        self.data = DataFiles(
            parts.blobs,
            self.transfer,
            parts.dice,
            self._givers,
            parts.data_quota_bytes,
            Sources(parts.data_sources, parts.blobs, parts.dice),
        )
        self.governance = GovernanceLog(genesis, self.ledger, parts.transport, parts.health)
        self.governance.held = self._governed
        self.discovery.offended = self.transfer.offended = self.offended
        self.governance.offended = self.offended

    def add(self, signed: SignedRevision) -> Lane:
        """Serves a revision, from the next open on."""
        setting = Setting(self.genesis, signed.revision)
        lane = Lane(self, setting, signed, self.plugin)
        self.lanes[signed.revision.id] = lane
        return lane

    def pause(self, why: str) -> None:
        """Of a trainer. Empty: it works again."""
        self.paused = why
        for lane in self.lanes.values():
            lane.inbox.put(Paused(why) if why else Resumed())

    async def run(self, *more: Task) -> None:
        """Runs the transport, all lanes and what else the composition root adds, until cancelled."""
        self.governance.open()
        for lane in self.lanes.values():
            await lane.open()
        self._open = True
        async with trio.open_nursery() as nursery:
            await nursery.start(self._serve_links)
            nursery.start_soon(self.supervision.keep, "discovery", self.discovery.run)
            nursery.start_soon(self.supervision.keep, "governance", self.governance.run)
            for lane in self.lanes.values():
                nursery.start_soon(lane.run)
                nursery.start_soon(self.supervision.keep, "diary", Diary(lane, log.info).run)
            for task in more:
                nursery.start_soon(task)

    async def leave(self) -> None:
        """Ends its roles, lets them say so, and waits until it has arrived. To be called before run is cancelled.

        Who does not acknowledge it within TELL_S is not waited for.
        """
        with trio.move_on_after(TELL_S):
            said = [await lane.leave() for lane in self.lanes.values()] if self._open else []
            if any(said):
                await self.transport.drain()

    async def store(self) -> None:
        """Stores what was only put off. To be called once run was cancelled."""
        for lane in self.lanes.values():
            await lane.chronicle.save_reports()

    async def _serve_links(self, *, task_status: trio.TaskStatus[None]) -> None:
        with self.supervision.vital("transport"):
            await self.transport.run(self, task_status=task_status)

    # LinkHandler

    def connected(self, link: Link) -> None:
        if self.conduct.is_shunned(link.peer, trio.current_time()):
            self.transport.disconnect(link.peer, "not taken for a while, for what it did before")
            return
        self.joined.set()
        for lane in self.lanes.values():
            lane.greet(link)
        self.governance.greet(link)
        self.transfer.linked(link.peer)
        self.discovery.connected(link)

    def disconnected(self, link: Link, why: str) -> None:
        self.discovery.disconnected(link)

    def received(self, peer: PeerId, message: bytes) -> None:
        now_s = trio.current_time()
        if not self.conduct.allows(peer, cost_of(message), now_s):
            self._count_refused("more than is read of one peer")
            if self.conduct.insists(peer, now_s):
                self._part(peer, "it sends more than is read of one peer")
            return
        try:
            self._on_talk(peer, message)
        except RemoteError as error:
            self._blame(peer, error)

    def _on_talk(self, peer: PeerId, message: bytes) -> None:
        talk = load_talk(message)
        if isinstance(talk, Objects):
            for envelope in talk.envelopes:
                try:
                    self._on_object(peer, envelope)
                except RemoteError as error:  # the others in the batch are none the worse
                    self._blame(peer, error)
        elif isinstance(talk, GovernanceTip):
            self.governance.on_tip(peer, talk)
        elif isinstance(talk, Tip | Decided | Inventory | Holdings):
            # A neighbour may serve revisions that this node does not.
            lane, link = self.lanes.get(talk.revision), self._link(peer)
            if lane is not None and link is not None:
                self._on_lane_talk(lane, link, talk)
        else:
            raise RemoteError(f"{type(talk).__name__} is a request, not a message")

    def _on_lane_talk(
        self, lane: Lane, link: Link, talk: Tip | Decided | Inventory | Holdings
    ) -> None:
        match talk:
            case Tip():
                lane.on_tip(link.peer, talk.height, talk.decision)
            case Decided():
                lane.on_decided(link.peer, talk)
            case Holdings():
                self.conduct.charge(link.peer, lane.on_holdings(link, talk), trio.current_time())
            case Inventory():
                self.conduct.charge(link.peer, lane.on_inventory(link, talk), trio.current_time())

    def _on_object(self, peer: PeerId, envelope: bytes) -> None:
        signed = load(envelope, self.genesis.network)
        self.heard[signed.kind] += 1
        lane = self.lanes.get(signed.scope.revision)
        if lane is not None:
            lane.receive(signed, peer)

    def _governed(self, signed: SignedGovernance) -> None:
        for lane in self.lanes.values():
            lane.hear_authority(signed)

    def _blame(self, peer: PeerId, error: RemoteError) -> None:
        """A few bad objects are bad luck or a race; many are a reason to part."""
        self._count_refused(str(error))
        if self.conduct.fault(peer, trio.current_time()):
            self._part(peer, f"too many objects that do not hold: {error}")

    def offended(self, peer: PeerId, why: str) -> None:
        self._count_refused(why)
        if self.conduct.fault(peer, trio.current_time(), weight=OFFENCE):
            self._part(peer, why)

    def _count_refused(self, why: str) -> None:
        self.refused[why[:60]] += 1
        if len(self.refused) > 100:
            self.refused.pop(next(iter(self.refused)))

    def _part(self, peer: PeerId, why: str) -> None:
        log.warning("closing the link to %s: %s", short(peer), why)
        self.discovery.shun(peer, self.conduct.shunned_until_s(peer))
        self.transport.disconnect(peer, why)

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        # Who asks too much waits, and with it no more than the requests that a peer may have open.
        ready_s = self.conduct.ready_s(peer, now_s := trio.current_time())
        await trio.lowlevel.checkpoint()
        if ready_s > now_s:
            await trio.sleep_until(ready_s)
        talk = load_talk(request)
        answer = await self._answer(peer, talk)
        if not isinstance(talk, GetChunk):  # chunks have limits of their own
            self.conduct.charge(peer, cost_of_answer(answer), trio.current_time())
        return answer

    async def _answer(self, peer: PeerId, talk: Talk) -> bytes:
        match talk:
            case GetManifest():
                return await self.transfer.serve_manifest(peer, talk)
            case GetChunk():
                return await self.transfer.serve_chunk(peer, talk)
            case GetHeld():
                return await self.transfer.serve_held(peer, talk)
            case GetRecords() | GetFarthest():
                return self._records(talk)
            case GetRevision(revision=revision):
                return encode(self._lane(revision).signed)
            case GetChoices(revision=revision, value=value):
                choices = self._lane(revision).role.choices_of(value)
                if choices is None:
                    raise RemoteError(f"no choices for {short(value)} here")
                return choices
            case GetGovernance():
                return self.governance.serve(talk)
            case GetPeers():
                return self.discovery.serve_peers(peer, talk)
            case _:
                raise RemoteError(f"{type(talk).__name__} is no request")

    def _records(self, talk: GetRecords | GetFarthest) -> bytes:
        if not 0 <= talk.after < MAX_HEIGHT:
            raise RemoteError(f"{talk.after} is no height")
        chronicle = self._lane(talk.revision).chronicle
        if isinstance(talk, GetFarthest):
            return encode(Records(chronicle.farthest(talk.after)))
        return encode(Records(chronicle.records_after(talk.after, RECORDS_ANSWER_BYTES)))

    def _lane(self, revision: RevisionId) -> Lane:
        lane = self.lanes.get(revision)
        if lane is None:
            raise RemoteError(f"revision {short(revision)} is not served here")
        return lane

    def _link(self, peer: PeerId) -> Link | None:
        return next((link for link in self.transport.links() if link.peer == peer), None)

    def _givers(self) -> Givers:
        """Of files of data sets."""
        links = self.transport.links()
        named = {link.peer for link in links if OFFER in link.hello.roles}
        known = {view.peer for view in self.discovery.known() if OFFER in view.record.roles}
        return Givers(sorted(named | known), [link.peer for link in links])

    def _may_have(self, peer: PeerId, artifact: ArtifactId) -> bool:
        return all(lane.may_have(peer, artifact) for lane in self.lanes.values())
