"""One revision on one node: follows its chain, keeps the open height's objects, serves its role. Times are seconds."""

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.chain import check_certified, check_derived, check_jump
from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting, genesis_decision
from p2pd.core.gates import largest_artifact_bytes
from p2pd.core.governance import SignedGovernance
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, PublicKey
from p2pd.core.messages import Choices, Update
from p2pd.core.pool import Admission, Pool
from p2pd.core.revision import SignedRevision
from p2pd.core.signed import Scope, Signed, T
from p2pd.core.talk import Decided, Holdings, Inventory, Purpose, Tip, dump_talk
from p2pd.core.validator.events import Adopted, ObjectSeen, RecordHeld
from p2pd.core.voting import exchange
from p2pd.core.voting.events import PeerHeard
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import RebuildJob
from p2pd.node.asking import ask_for_choices, ask_while
from p2pd.node.bringing import bring
from p2pd.node.catch_up import OWN_S, CatchUp
from p2pd.node.chronicle import Chronicle
from p2pd.node.driver import Inbox, drive, say_leave
from p2pd.node.fork_watch import ForkWatch
from p2pd.node.heads import KEPT_HEADS, Heads
from p2pd.node.hub import Hub
from p2pd.node.neighbours import Neighbours, is_for
from p2pd.node.relays import Relays
from p2pd.node.reports import Reports
from p2pd.node.steps import HeightTimes, Step, Steps
from p2pd.node.supplies import Supplies, supplied
from p2pd.node.wanted import Wanted
from p2pd.node.ways import ways_to
from p2pd.node.window_artifacts import WindowArtifacts
from p2pd.ports import Link, Math, Role, RolePlugin, Worker
from p2pd.wire.envelope import load_choices, seal

log = logging.getLogger("p2pd.lane")

RECONCILE_S = 1.0
RECONCILE_MOST_S = 5.0

HISTORY = 256
"""Heights whose times are remembered, for people."""

KEPT = frozenset({"update", "release", "reduction", "evidence"})
"""What this node says once at a height, over all its lives."""


class Lane:
    def __init__(
        self, hub: Hub, setting: Setting, signed: SignedRevision, plugin: RolePlugin
    ) -> None:
        self.setting = setting
        self.signed = signed
        self.steps = Steps()
        self.inbox = Inbox[object](self.steps.saw)
        self.pool = Pool(setting, genesis_decision(setting))
        self.role: Role
        self.history: deque[HeightTimes] = deque(maxlen=HISTORY)
        self.moved = trio.Event()
        """Set, and replaced, when a height begins."""
        self.artifacts = WindowArtifacts(hub.blobs, setting.revision.id)
        self.chronicle = Chronicle(hub.ledger, setting)
        self._hub = hub
        self._plugin = plugin
        self._heads = Heads(hub.blobs, setting.revision.id, hub.keep_every)
        self._supplies = Supplies(hub.data, setting)
        self.worker: Worker = supplied(hub.worker, self._supplies, setting)
        self.bring_data = self._supplies.bring
        self._adopting = trio.Lock()
        self._until_left = trio.CancelScope()
        self.forks = ForkWatch(self.chronicle, setting, hub.transport)
        self._catch_up = CatchUp(self, hub.transport, self.forks)
        self._neighbours = Neighbours(hub.transport)
        self._relays = Relays(hub.transport.peer, self._neighbours)
        self._reports = Reports(self.chronicle)

    # What the role sees of it (port Services)

    @property
    def key(self) -> PublicKey:
        return self._hub.signer.key

    @property
    def decision(self) -> Decision:
        return self.pool.previous

    @property
    def votes(self) -> bool:
        return self.role.holdings() is not None

    @property
    def math(self) -> Math:
        return self._hub.math

    @property
    def paused(self) -> str:
        return self._hub.paused

    @property
    def private_seed(self) -> int:
        return self._hub.private_seed

    def sign(self, kind: str, scope: Scope, content: T) -> Signed[T]:
        return seal(self._hub.signer, kind, scope, content)

    def open_choices(self, data: bytes) -> Choices:
        return load_choices(data, self.setting.genesis.network)

    def stored_votes(self) -> bytes | None:
        return self.chronicle.votes(self.pool.height)

    def own_objects(self) -> tuple[Signed[Any], ...]:
        return self.chronicle.own(self.pool.height, self.key)

    def decision_at(self, height: int) -> Decision | None:
        record = self.chronicle.record(height)
        return None if record is None else record.decision

    async def remember_votes(self, height: int, state: bytes) -> None:
        await self.chronicle.remember_votes(height, state)

    async def publish(self, signed: Signed[Any]) -> None:
        if signed.kind in KEPT:
            await self.chronicle.keep_own(signed)
        self._take(signed, None)

    async def adopt(self, record: Record, *, derived: bool = False) -> None:
        async with self._adopting:
            if record.decision.height <= self.decision.height or self.forks.fork is not None:
                return
            self.steps.note(Step.VOTE, trio.current_time())
            # The quorum first: opening choices costs a verification for each object in them.
            check_certified(self.setting, self.decision, record)
            if not derived:
                choices = self.open_choices(record.decision.choices)
                check_derived(self.setting, self.decision, record, choices)
            await self._keep(record)

    async def leap(self, record: Record) -> None:
        """Takes a later decision without those between. Raises RemoteError: its certificate does not show it."""
        async with self._adopting:
            if record.decision.height <= self.decision.height or self.forks.fork is not None:
                return
            check_jump(self.setting, self.decision, record)
            skipped = record.decision.height - self.decision.height - 1
            await self._keep(record)
            log.info("leapt to height %d over %d decisions", record.decision.height, skipped)

    async def _keep(self, record: Record) -> None:
        if record.decision.state.governed.log != self.decision.state.governed.log:
            taken = self.open_choices(record.decision.choices).governance
            await self._hub.governance.follow(record.decision, taken)
        encoded = await self.chronicle.adopt(record)
        self._move_on(record.decision)
        self._tell_decided(encoded)
        await self._heads.keep_for_good(record.decision)

    def _move_on(self, decision: Decision) -> None:
        self._heads.pin(decision)
        self.forks.adopted(decision)
        self._relays.decided(decision.height)
        self.artifacts.let_go()
        self._supplies.decided(decision.height)
        waited = self.pool.advance(decision)
        for signed in self.pool.held.values():  # of the window before: still to be decided
            if isinstance(signed.content, Update):
                self.artifacts.guard(signed.content.artifact)
        newest = not self._neighbours.are_beyond(decision.height)
        self.history.append(self.steps.turn(decision, trio.current_time(), newest=newest))
        self.inbox.put(Adopted(decision))
        for signed in waited:
            self._take(signed, signed.signer)
        self.moved.set()
        self.moved = trio.Event()

    def _tell_decided(self, encoded: bytes) -> None:
        decision = self.decision
        decided = Decided(self.setting.revision.id, decision.height, decision.id, encoded)
        self._neighbours.tell_decided(decided, self._tip(), self._has_seat)

    def keep(self, artifact: ArtifactId) -> None:
        self.artifacts.keep(artifact)

    async def fetch(
        self,
        artifact: ArtifactId,
        kind: ArtifactKind,
        providers: Sequence[PeerId],
        owner: bytes = b"",
    ) -> bool:
        schema = self.setting.revision.schema_of(kind)
        wanted = Wanted(artifact, kind, schema.id, largest_artifact_bytes(schema), owner)
        linked = [link.peer for link in self._hub.transport.links()]
        limit_s = self.setting.revision.schedule.check_limit_ms / 1000
        self.keep(artifact)
        return await bring(self._hub, wanted, providers, others=linked, limit_s=limit_s)

    def ways_to(self, head: ArtifactId) -> Sequence[RebuildJob]:
        return ways_to(head, self.setting.revision, self.chronicle, self._hub.blobs)

    def offended(self, peer: PeerId, why: str) -> None:
        self._hub.offended(peer, why)

    async def fetch_choices(self, value: DecisionId, holders: Sequence[PeerId]) -> bytes | None:
        """Asks until somebody has those that were voted on, or the height is over."""
        height, transport, revision = (
            self.pool.height,
            self._hub.transport,
            self.setting.revision.id,
        )

        def wanted() -> bool:
            return self.pool.height == height and self.role.choices_of(value) is None

        # Votes for a value may come before this node has derived it itself.
        await trio.sleep(OWN_S)
        ask = partial(ask_for_choices, transport, revision, value, holders)
        return await ask_while(wanted, ask, RECONCILE_S)

    # The life of the lane

    async def open(self) -> None:
        """Takes up the chain where the ledger left it. Raises StoreError: the ledger is damaged."""
        await self.chronicle.keep_revision(self.signed)
        decision = await self.chronicle.last()
        self.pool = Pool(self.setting, decision)
        self.steps.opened_s = trio.current_time()
        for height in range(max(0, decision.height - KEPT_HEADS + 1), decision.height + 1):
            record = self.chronicle.record(height)
            if record is not None:
                self._heads.pin(record.decision)
                self.forks.adopted(record.decision)
                await self._heads.keep_for_good(record.decision)
        for signed in self.own_objects():
            if signed.scope.height == self.pool.height or isinstance(signed.content, Update):
                self._take(signed, None)
        self.role = self._plugin.at(self)
        for known in self._hub.governance.after(decision.state.governed.log.number):
            self.hear_authority(known)
        self.forks.open()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            keep = self._hub.supervision.keep
            nursery.start_soon(keep, "reconciliation", self._reconcile)
            nursery.start_soon(keep, "catching up", self._catch_up.run)
            nursery.start_soon(keep, "reports", self._reports.run)
            nursery.start_soon(keep, "relaying", self._relays.run)
            with self._hub.supervision.vital(f"role {self._plugin.name}"):
                with self._until_left:
                    await self._serve()
                await trio.sleep_forever()

    async def leave(self) -> bool:
        """Ends what the role does, and lets it say so. False: there was nothing to say."""
        self._until_left.cancel()
        return await say_leave(self.role)

    async def _serve(self) -> None:
        """Until a fork is found: then this node only tells others what it holds."""
        with self.forks.until_found:
            await drive(self.role, self.inbox)
        await trio.sleep_forever()

    # Objects

    def receive(self, signed: Signed[Any], source: PeerId) -> None:
        """Raises RemoteError: it does not belong here, and its sender should have known."""
        self._take(signed, source)

    def _take(self, signed: Signed[Any], source: PeerId | None) -> None:
        admission = self.pool.admit(signed)
        if admission is Admission.KNOWN and source is not None:
            self._relays.came_again(signed, source)
        if admission is not Admission.NEW:
            return
        content = signed.content
        if isinstance(content, Update):
            self.steps.note(Step.PUBLISH, trio.current_time())
            self.artifacts.guard(content.artifact)
        elif isinstance(content, Proposal):
            self.steps.proposed(trio.current_time())
        self._relays.add(signed, source)
        if signed.kind == "report":
            self._reports.add(signed)
        else:
            self.inbox.put(ObjectSeen(signed))

    def hear_authority(self, signed: SignedGovernance) -> None:
        self.inbox.put(RecordHeld(signed))

    def greet(self, link: Link) -> None:
        self._hub.transport.send(link.peer, self._tip())
        self._hub.transport.send(link.peer, self._inventory())
        votes = self.role.holdings()
        if votes is not None and self._has_seat(link.peer):
            self._hub.transport.send(link.peer, self._holdings(votes))

    def _tip(self) -> bytes:
        decision = self.decision
        return dump_talk(Tip(self.setting.revision.id, decision.height, decision.id))

    def _inventory(self) -> bytes:
        held = self.pool.inventory()
        return dump_talk(Inventory(self.setting.revision.id, self.pool.height, held))

    def on_inventory(self, link: Link, inventory: Inventory) -> int:
        """Sends what the other lacks, and returns how many; one that is behind learns of it."""
        if inventory.height < self.pool.height:
            self._hub.transport.send(link.peer, self._tip())
            return 1
        if inventory.height > self.pool.height:
            self.on_tip(link.peer, inventory.height - 1, self.decision.id)
            return 0
        missing = [one for one in self.pool.missing(inventory.objects) if is_for(one.kind, link)]
        if self.votes and self._has_seat(link.peer):
            # Validators tell each other more exactly which votes they lack.
            missing = [one for one in missing if one.kind not in ("vote", "proposal")]
        return self._neighbours.send(link, missing)

    def on_holdings(self, link: Link, holdings: Holdings) -> int:
        """Sends a validator the votes that it lacks of the height that both decide."""
        if holdings.height != self.pool.height or not self._has_seat(link.peer):
            return 0
        sent = self._neighbours.send(link, self.lacking(holdings))
        votes = self.role.holdings()
        if votes is None:
            return sent
        if holdings.purpose is Purpose.ANSWER:
            self.inbox.put(PeerHeard(link.peer))
        elif holdings.purpose is Purpose.ASK:
            self._hub.transport.send(link.peer, self._holdings(votes, Purpose.ANSWER))
            sent += 1
        elif self._listens():
            self._hub.transport.send(link.peer, self._holdings(votes, Purpose.ASK))
        return sent

    def _has_seat(self, peer: PeerId) -> bool:
        """What a hello says costs nothing; comparing votes does."""
        return any(member.peer == peer for member in self.setting.members(()).rows)

    def on_decided(self, peer: PeerId, decided: Decided) -> None:
        self._neighbours.heard_tip(peer, decided.height, decided.decision)
        if self.forks.fork is None:
            self._catch_up.brought(peer, decided)

    def on_tip(self, peer: PeerId, height: int, decision: DecisionId) -> None:
        self._neighbours.heard_tip(peer, height, decision)
        if self.forks.fork is None:
            self._catch_up.heard(peer, height, decision)

    async def _reconcile(self) -> None:
        """Lost messages cannot stall a height: neighbours compare what they hold, less often when nothing moves."""
        pause_s = RECONCILE_S
        while True:
            moved = self.moved
            with trio.move_on_after(pause_s):
                # A height has just begun: all that is said of it is still on its way.
                await moved.wait()
                pause_s = RECONCILE_S
                continue
            pause_s = min(RECONCILE_MOST_S, pause_s * 1.5)
            self._neighbours.tell_few(self._inventory())
            votes = self.role.holdings()
            if votes is not None:
                self._neighbours.tell_validators(self._holdings(votes))

    def _holdings(self, votes: exchange.Inventory, purpose: Purpose | None = None) -> bytes:
        if purpose is None:
            purpose = Purpose.ASK if self._listens() else Purpose.TELL
        return dump_talk(Holdings(self.setting.revision.id, self.pool.height, votes, purpose))

    def lacking(self, holdings: Holdings) -> Sequence[Signed[Any]]:
        return self.role.lacking(holdings.votes)

    def _listens(self) -> bool:
        voting = self.role.view().voting
        return voting is not None and voting.listening

    def may_have(self, peer: PeerId, artifact: ArtifactId) -> bool:
        judges = peer in self.decision.state.plan.reducers or self._has_seat(peer)
        return judges or not self.artifacts.hides(artifact)
