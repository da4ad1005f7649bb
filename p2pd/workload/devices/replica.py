"""The workload inside a fellow: it builds the same one, and trains its part of each lease."""

import json
import socket
import warnings
from pathlib import Path

import torch

from p2pd.errors import WorkloadError
from p2pd.workload import answers
from p2pd.workload.contract import Lease
from p2pd.workload.defaults import Defaults
from p2pd.workload.devices.group import Meeting, met
from p2pd.workload.devices.messages import FellowBuild, FellowBuilt, FellowTrain
from p2pd.workload.devices.placement import strategy_of, use
from p2pd.workload.devices.sharing import built_of, share
from p2pd.workload.devices.stores import Store, beside, reached
from p2pd.workload.pipelines import leased
from p2pd.workload.session import build_workload, leased_samples
from p2pd.workload.source import source_digest

LOOPBACK = "127.0.0.1"


class ReplicaSession:
    def __init__(self, build: FellowBuild, device: str) -> None:
        """Raises WorkloadError, or whatever importing and building the user's code raises."""
        call = build.call
        torch.set_num_threads(call.threads)
        # By strategy multi, schedulers step here and optimizers do not.
        warnings.filterwarnings("ignore", message=r"Detected call of `lr_scheduler\.step\(\)`")
        if source_digest(call.module) != build.source:
            raise WorkloadError(
                f"workload {call.module} has another source here than on the main worker's machine:"
                " install the same version"
            )
        use(device)
        self._workload = build_workload(call.module, json.loads(call.config))
        if device:
            self._workload.place(device)
        self._defaults = Defaults()
        self._train_samples = answers.described(self._workload)[0]

    def built(self) -> FellowBuilt:
        return built_of(self._workload)

    def train(self, call: FellowTrain, link: socket.socket) -> None:
        """
        Raises:
            Cancelled: the main worker was told to stop.
            LinkLostError: another worker has gone.
        """
        meeting = Meeting(_store(call, link), call.rank, call.size, call.on_gpus)
        strategy = strategy_of(call.strategy, self._workload.strategy)
        with met(meeting, strategy, _never) as group:
            share(self._workload, group)
            samples = leased_samples(call.job, self._train_samples)
            lease = Lease(samples, call.job.progress.steps, call.job.seed, group.pause, group)
            try:
                with leased(self._workload.pipeline, lease):
                    self._workload.train(lease)
            finally:
                self._defaults.restore()


def _store(call: FellowTrain, link: socket.socket) -> Store:
    if not call.place.startswith(":"):
        return beside(Path(call.place), call.size)
    # The main worker, as this one reaches it.
    host = LOOPBACK if link.family == socket.AF_UNIX else link.getpeername()[0]
    return reached(host, int(call.place[1:]), call.size)


def _never() -> None:
    """Only the main worker is told to stop, and tells the others."""
