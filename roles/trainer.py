"""Trains the leases that certified plans give it. Its machine is p2pd.core.trainer."""

import logging
from typing import cast

import trio

from p2pd.core.decision import PlanState
from p2pd.core.ids import DecisionId, peer_id
from p2pd.core.lease_data import BringData, DataBrought
from p2pd.core.seldom import Seldom
from p2pd.core.trainer import Abandon, Effect, Event, FetchBase, Train, Trained, Trainer
from p2pd.core.validator.events import Fetched, Publish
from p2pd.core.voting.exchange import Inventory
from p2pd.core.wording import counted
from p2pd.core.work import MILLION, TrainJob, TrainResult
from p2pd.errors import RemoteError, StoreError, UnreachableError, WorkloadError
from p2pd.ports import Role, RoleView, Services
from roles import jobs

log = logging.getLogger("p2pd.roles")

TOLD_EVERY_S = 10.0
"""Of what was trained."""


class TrainerRole:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._machine = Trainer(
            services.setting, peer_id(services.key), services.sign, services.decision
        )
        self._training = trio.CancelScope()
        self._bringing: dict[int, trio.CancelScope] = {}
        """The data of each lease, by its height."""
        self._told = Seldom(TOLD_EVERY_S)

    def start(self, now_s: float) -> list[Effect]:
        decision = self._machine.previous = self._services.decision
        self._machine.now_s = now_s
        self._machine.paused = self._services.paused
        before = self._services.decision_at(max(0, decision.height - 1))
        return self._machine.resume(self._services.own_objects(), before)

    def handle(self, event: object, now_s: float) -> list[Effect]:
        return self._machine.handle(cast("Event", event), now_s)

    def tick(self, now_s: float) -> list[Effect]:
        return self._machine.tick(now_s)

    def next_deadline_s(self) -> float | None:
        return self._machine.next_deadline_s()

    def leave(self) -> list[Effect]:
        return self._machine.leave()

    def is_job(self, effect: object) -> bool:
        return isinstance(effect, FetchBase | BringData | Train)

    async def carry_out(self, effect: object) -> Event | None:
        match effect:
            case Publish(signed=signed):
                await self._services.publish(signed)
            case Abandon():
                for scope in (self._training, *self._bringing.values()):
                    scope.cancel()
            case FetchBase(artifact=artifact):
                return Fetched(artifact, await jobs.fetch_head(self._services, artifact))
            case BringData():
                return await self._bring(effect)
            case Train(job=job):
                return await self._train(job)
            case _:
                raise AssertionError(f"a trainer has no effect {effect}")
        return None

    async def _bring(self, job: BringData) -> DataBrought | None:
        height = job.height
        with trio.CancelScope() as scope:
            self._bringing[height] = scope
            try:
                await self._services.bring_data(height, job.shards)
            except (UnreachableError, RemoteError) as error:
                log.warning("height %d has no data: %s", height, error)
                return DataBrought(job, str(error))
            except StoreError as error:  # which file it is is nobody else's business
                log.warning("height %d has no data: %s", height, error)
                return DataBrought(job, "there is no room for its data, or it failed")
            finally:
                if self._bringing.get(height) is scope:
                    del self._bringing[height]
            return DataBrought(job, "")
        return None

    async def _train(self, job: TrainJob) -> Trained | None:
        with trio.CancelScope() as self._training:
            try:
                result = await self._services.worker.train(job)
                self._tell(job, result)
            except WorkloadError as error:
                log.warning("height %d is not trained: %s", job.height, error)
                return Trained(job, None, str(error))
            except StoreError as error:  # which file it is is nobody else's business
                log.warning("height %d is not trained: %s", job.height, error)
                return Trained(job, None, "the data directory has no room, or failed")
            return Trained(job, result, "")
        return None

    def _tell(self, job: TrainJob, result: TrainResult) -> None:
        left_out = self._told.due(trio.current_time())
        if left_out is None:
            return
        more = f"; {counted(left_out, 'lease')} more since the last such line" if left_out else ""
        log.info(
            "height %d: %s in %.2f s, loss %.4f%s",
            job.height,
            counted(result.samples, "sample"),
            result.seconds,
            result.loss / MILLION,
            more,
        )

    def choices_of(self, value: DecisionId) -> bytes | None:
        return None

    def holdings(self) -> None:
        return None

    def lacking(self, theirs: Inventory) -> tuple[()]:
        return ()

    def view(self) -> RoleView:
        machine = self._machine
        lease = machine.lease
        if machine.previous.state.plan.state is PlanState.FINISHED:
            return RoleView("finished", None)
        if machine.paused:
            return RoleView(f"paused: {machine.paused}", None)
        if machine.resting:
            left_s = max(0.0, machine.rest.until_s - trio.current_time())
            failures = counted(machine.rest.failures, "failure")
            return RoleView(f"resting {left_s:.0f} s after {failures} in a row", None)
        if lease is None:
            return RoleView(self._waiting(), None)
        task = machine.task
        if machine.published and task is None:
            return RoleView("update published", None)
        if task is not None and task.plan is None:
            doing = "trained" if task.result else "training"
            return RoleView(f"{doing} {counted(len(task.shards), 'microshard')} ahead", None)
        doing = "training" if machine.training else "fetching the head for"
        if task is not None and task.base_here and not task.data_here:
            doing = "bringing the data of"
        return RoleView(f"{doing} {counted(lease.samples, 'sample')}", None)

    def _waiting(self) -> str:
        machine = self._machine
        waited = (one for one in machine.previous.state.standby if one.peer == machine.me)
        if (standby := next(waited, None)) is None:
            return "waiting for a lease"
        return f"standing by for {counted(standby.windows, 'window')}: all places are taken"


class TrainerPlugin:
    name = "trainer"
    needs_worker = True
    needs_math = False
    offers = ("trainer",)

    def at(self, services: Services) -> Role:
        return TrainerRole(services)
