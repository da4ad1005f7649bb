"""Checks everything itself, and votes. Its machine is p2pd.core.validator.machine."""

import logging
from collections.abc import Sequence
from typing import Any, cast

from p2pd.core.ids import ArtifactId, DecisionId, short
from p2pd.core.signed import Signed
from p2pd.core.validator.events import (
    Adopt,
    ChoicesFetched,
    Effect,
    Evaluate,
    EvaluationDone,
    Event,
    FetchChoices,
    FetchOuter,
    FetchUpdate,
    Halt,
    Inspect,
    Job,
    Merge,
    Publish,
    Remember,
)
from p2pd.core.validator.machine import Validator
from p2pd.core.validator.seat import Seat
from p2pd.core.voting.exchange import Inventory
from p2pd.core.voting.timers import CheckTimes
from p2pd.core.work import EvaluateJob
from p2pd.errors import LocalError, StoreError, WorkloadError
from p2pd.ports import Role, RoleView, Services
from roles import jobs

log = logging.getLogger("p2pd.roles")


class ValidatorRole:
    def __init__(self, services: Services) -> None:
        self._services = services
        seat = Seat(services.setting, services.key, services.sign, services.open_choices)
        limit_s = services.setting.revision.schedule.check_limit_ms / 1000
        self._machine = Validator(seat, CheckTimes(limit_s), services.decision, 0.0)

    def start(self, now_s: float) -> list[Effect]:
        self._machine.previous = self._services.decision
        self._machine.now_s = now_s
        return self._machine.resume(self._services.stored_votes())

    def handle(self, event: object, now_s: float) -> list[Effect]:
        return self._machine.handle(cast("Event", event), now_s)

    def tick(self, now_s: float) -> list[Effect]:
        return self._machine.tick(now_s)

    def next_deadline_s(self) -> float | None:
        return self._machine.next_deadline_s()

    def leave(self) -> tuple[()]:
        """Others find out by its silence in a vote: only a quorum's silence holds anybody up."""
        return ()

    def is_job(self, effect: object) -> bool:
        return isinstance(effect, Job)

    async def carry_out(self, effect: object) -> Event | None:
        match effect:
            case Remember(height=height, state=state):
                await self._services.remember_votes(height, state)
            case Publish(signed=signed):
                await self._services.publish(signed)
            case Adopt(record=record):
                await self._services.adopt(record, derived=True)
            case FetchOuter(artifact=artifact):
                await jobs.fetch_outer(self._services, artifact)
            case Halt(why=why):
                raise LocalError(why)
            case _:
                return await self._do(effect)
        return None

    async def _do(self, job: object) -> Event:
        services = self._services
        match job:
            case FetchUpdate():
                return await jobs.fetch_update(services, job)
            case Inspect():
                return await jobs.inspect(services, job)
            case Merge():
                return await jobs.merge(services, job)
            case Evaluate(head=head):
                return await self._evaluate(head)
            case FetchChoices(value=value, holders=holders):
                return ChoicesFetched(value, await services.fetch_choices(value, holders))
            case _:
                raise AssertionError(f"a validator has no effect {job}")

    async def _evaluate(self, head: ArtifactId) -> EvaluationDone:
        services = self._services
        if not await jobs.fetch_head(services, head):
            return EvaluationDone(head, None)
        samples = services.setting.revision.canary.samples
        try:
            job = EvaluateJob(head, services.private_seed, samples)
            return EvaluationDone(head, await services.worker.evaluate(job))
        except (WorkloadError, StoreError) as error:
            log.warning("head %s could not be evaluated: %s", short(head), error)
            return EvaluationDone(head, None)

    def choices_of(self, value: DecisionId) -> bytes | None:
        return self._machine.choices_of(value)

    def holdings(self) -> Inventory:
        return self._machine.votes.inventory()

    def lacking(self, theirs: Inventory) -> Sequence[Signed[Any]]:
        return self._machine.votes.missing(theirs)

    def view(self) -> RoleView:
        voting = self._machine.votes.view()
        return RoleView(f"round {voting.round}, {voting.step.name.lower()}", voting)


class ValidatorPlugin:
    name = "validator"
    needs_worker = True
    needs_math = True
    offers = ("validator",)

    def at(self, services: Services) -> Role:
        return ValidatorRole(services)
