"""The main worker's side of several devices: its fellows gathered, and each lease trained by all together."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from p2pd.core.encoding import decode
from p2pd.core.wording import tallied
from p2pd.core.work import TrainJob
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Cancelled, Lease, Trained, Workload
from p2pd.workload.devices.crew import Crew, Fellow, FellowError, GiveUp, started
from p2pd.workload.devices.gathering import gathered
from p2pd.workload.devices.group import Meeting, met
from p2pd.workload.devices.interfaces import bind_to
from p2pd.workload.devices.messages import FellowBuild, FellowBuilt, FellowTrain
from p2pd.workload.devices.placement import (
    BUILT,
    on_gpu,
    places_of,
    require_strategy,
    strategy_of,
    use,
)
from p2pd.workload.devices.sharing import built_of, share
from p2pd.workload.devices.stores import Store, beside, hosted
from p2pd.workload.places import places
from p2pd.workload.protocol import AUTO, BuildCall, Call

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Turn:
    """One lease of the team."""

    job: TrainJob
    path: Path
    """Of a file in which the workers of one machine meet."""
    give_up: GiveUp


class Team:
    """The workers of one trainer, from their start to their end; most have the main one alone."""

    def __init__(self, call: BuildCall, source: bytes) -> None:
        """Starts those of this machine, and waits for those of others.

        Raises:
            WorkloadError: no such devices, or who comes from elsewhere is not who is waited for.
        """
        devices = self._devices = call.devices
        self.devices: tuple[str, ...] = ()
        """On what each worker computes, once all have built."""
        self._places = places_of(devices)
        require_strategy(devices.strategy, len(self._places) + devices.elsewhere)
        use(self._places[0])
        self._host = ""
        """Where workers on other machines reach this one; empty where there are none."""
        self._on_gpus = [on_gpu(place) for place in self._places]
        self._hosts = [""] * len(self._places)
        self._crew = Crew(self._gathered(call) if len(self._places) + devices.elsewhere > 1 else ())
        data = tuple(map(os.fsencode, places()))
        self._crew.ask(
            Call.BUILD,
            [
                *(FellowBuild(call, source, place, data) for place in self._places[1:]),
                *[FellowBuild(call, source, BUILT, ())] * devices.elsewhere,
            ],
        )

    @property
    def size(self) -> int:
        return len(self._on_gpus)

    def take(self, workload: Workload) -> None:
        """What the main worker has built, once the others have built it too.

        Raises:
            FellowError: another worker failed to build the workload, or built another one.
            WorkloadError: it trains on one device only.
        """
        if self._places[0] != BUILT:
            workload.place(self._places[0])
        if self.size > 1 and not workload.divides and self._devices.names == (AUTO,):
            self._shrink()
        elif self.size > 1 and not workload.divides:
            raise WorkloadError(
                f"this workload trains on one device, and trainer.devices gives it {self.size}: name one,"
                " or have train divide its lease among lease.ranks, and set divides = True"
            )
        own = built_of(workload)
        built = [own, *(decode(FellowBuilt, answer.body) for answer in self._crew.answers())]
        for rank, other in enumerate(built):
            if replace(other, device=own.device) != own:
                raise FellowError(
                    f"worker {rank} failed: it built another model or data set:"
                    " build must do the same in every process"
                )
        self.devices = tuple(
            one.device + host for one, host in zip(built, self._hosts, strict=True)
        )
        if self.size > 1:
            over = "nccl" if all(self._on_gpus) else "gloo"
            print(f"{self.size} workers over {over}: {tallied(self.devices)}")  # noqa: T201

    def train(self, workload: Workload, lease: Lease, turn: Turn) -> Trained:
        """Whatever the workload returned on the main worker.

        Raises:
            FellowError: another worker failed; besides, what the workload raises.
        """
        if self.size == 1:
            return workload.train(lease)
        strategy = strategy_of(self._devices.strategy, workload.strategy)
        turn.path.parent.mkdir(parents=True, exist_ok=True)
        turn.path.unlink(missing_ok=True)  # of a lease whose end nobody saw
        store, place = self._store(turn.path)
        meeting = Meeting(store, 0, self.size, all(self._on_gpus))
        calls = [
            FellowTrain(turn.job, place, rank, self.size, meeting.on_gpus, self._devices.strategy)
            for rank in range(1, self.size)
        ]
        try:
            self._crew.ask(Call.TRAIN, calls)
            with (
                self._crew.watched(turn.give_up) as guard,
                met(meeting, strategy, lease.pause) as group,
                guard.over(),
            ):
                share(workload, group)
                return workload.train(replace(lease, pause=group.pause, ranks=group))
        except Cancelled as told:
            print(f"{self.size} workers stopped between two steps: {told}", flush=True)  # noqa: T201
            raise
        finally:
            turn.path.unlink(missing_ok=True)

    def close(self) -> None:
        self._crew.close()

    def _gathered(self, call: BuildCall) -> Iterator[Fellow]:
        """Those of other machines first: which way leads to them is what the others need to know."""
        here = len(self._places)
        for fellow, hello in gathered(self._devices, here) if self._devices.elsewhere else ():
            self._on_gpus.append(on_gpu(hello.device))
            self._hosts.append(f" on {hello.host}")
            self._host = fellow.link.getsockname()[0]
            yield fellow
        bind_to(self._host or LOOPBACK)
        for rank in range(1, here):
            yield started(rank, call.module, call.paths)

    def _shrink(self) -> None:
        """To the main worker alone."""
        self._crew.close()
        self._crew = Crew(())
        del self._on_gpus[1:], self._hosts[1:]

    def _store(self, path: Path) -> tuple[Store, str]:
        """Of the lease, and what the fellows are told of it."""
        if not self._host:
            return beside(path, self.size), os.fspath(path)
        store, port = hosted(self._host, self.size)
        return store, f":{port}"
