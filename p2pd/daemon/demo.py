"""A complete fleet on this machine: separate daemons train the digits until so many heads are certified. Seconds."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import trio

from p2pd.core.derive import Setting
from p2pd.core.genesis import Genesis
from p2pd.core.revision import Revision
from p2pd.core.wording import counted
from p2pd.daemon.demo_report import show
from p2pd.daemon.local import POLL_S, LocalFleet, Member, Status, revision_of
from p2pd.daemon.outcome import Run, read_outcome
from p2pd.daemon.publish import (
    CanarySettings,
    MergeSettings,
    PublishRequest,
    RevisionSettings,
    ScheduleSettings,
    publish,
)
from p2pd.errors import P2pError, UsageError
from p2pd.io.durable import storing, temporary_directory
from p2pd.io.keys import Ed25519Signer, create_key
from p2pd.lifeline import tied

WORKLOAD = "p2pd.workloads.digits"
DIGITS = 1437
"""Training samples of the workload."""
SHARD_SAMPLES = 16
LIMIT_S = 240.0
"""A demo that has not come to its end by then has failed."""
REPORTS_S = 5.0
"""How long the validators' measurements of the last head may take to come in."""
NODES_MOST = 32

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    directory: Path | None = None
    """Must not exist or be empty; None takes a new one among the temporary files."""
    keep: bool = False
    """Keep the nodes' data of a demo without a directory of its own, too."""
    trainers: int = 3
    validators: int = 3
    reducers: int = 1
    windows: int = 10
    """Heads to certify."""
    in_json: bool = False

    def __post_init__(self) -> None:
        if min(self.trainers, self.validators, self.windows) < 1 or self.reducers < 0:
            raise UsageError("a demo needs at least one trainer, one validator and one window")
        if max(self.trainers, self.validators, self.reducers) > NODES_MOST:
            raise UsageError(f"a demo on one machine has at most {NODES_MOST} nodes of a role")

    @property
    def quorum(self) -> int:
        """Three validators survive a crash with two votes; more of them also survive liars."""
        return 2 if self.validators == 3 else 2 * self.validators // 3 + 1

    def nodes(self) -> tuple[tuple[str, str], ...]:
        """(name, role) of each node, the seed first."""
        counts = (
            ("bootstrap", "seed", 1),
            ("validator", "validator", self.validators),
            ("reducer", "reducer", self.reducers),
            ("trainer", "trainer", self.trainers),
            ("viewer", "viewer", 1),
        )
        return tuple(
            (f"{name}{n}", role) for role, name, many in counts for n in range(1, many + 1)
        )


def demo(options: DemoOptions) -> int:
    """Runs it all and shows what came of it. No process is left, whatever happens. The exit status.

    Raises:
        UsageError: the directory is in use.
        P2pError: a node did not start or died, or time ran out; its files are kept.
    """
    # With --json, standard output is for the one line at the end.
    stream = sys.stderr if options.in_json else sys.stdout

    def say(line: str) -> None:
        stream.write(f"{line}\n")
        stream.flush()

    directory = _directory(options)
    outcome = read_outcome(trio.run(_Stage(options, directory, say).play))
    show(outcome, say, in_json=options.in_json)
    if options.directory is None and not options.keep and outcome.ok:
        for name in ("nodes", "configs", "output"):
            shutil.rmtree(directory / name)
        say("the nodes' own files are gone: --keep or --dir keeps them")
    return 0 if outcome.ok else 1


def _directory(options: DemoOptions) -> Path:
    """Raises UsageError or StoreError: there can be no demo there."""
    if options.directory is None:
        place = temporary_directory()
        with storing(place):
            return Path(tempfile.mkdtemp(prefix="p2pd-demo-", dir=place))
    directory = options.directory.absolute()
    with storing(directory):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UsageError(f"{directory}: exists and is not empty: name another directory")
        directory.mkdir(parents=True, exist_ok=True)
    return directory


class _Stage:
    """One demo from its keys to its end."""

    def __init__(self, options: DemoOptions, directory: Path, say: Say) -> None:
        self.options = options
        self.directory = directory
        self.say = say
        self.record = directory / "digits.revision.cbor"
        members = [Member(name, role) for name, role in options.nodes()]
        self.fleet = LocalFleet(directory, "demo", members, self.record, LIMIT_S)
        self.started_s = 0.0

    async def play(self) -> Run:
        self.started_s = trio.current_time()
        self.say(f"files in {self.directory}")
        authority = create_key(self.directory / "authority.key")
        genesis = self.fleet.found(authority, self.options.quorum)
        self.say("building the workload, to publish its revision")
        published = await publish(self._request(genesis, authority))
        revision = published.signed.revision
        try:
            await self.fleet.start()
            self.say(f"started {counted(len(self.fleet.nodes), 'node')}")
            judge = await self._watch()
        finally:
            await self.fleet.stop()
        self.say("training alone on as many samples, to compare")
        samples = revision_of(judge)["samples"]
        central = await _train_alone(revision, samples, self.options.windows)
        rows = revision_of(judge)["decisions"]
        return Run(
            directory=self.directory,
            nodes=tuple(
                (one.name, one.role, self.fleet.signers[one.name].peer.hex())
                for one in self.fleet.members
            ),
            setting=Setting(genesis, revision),
            windows=self.options.windows,
            times={row["height"]: (row["train_s"], row["overhead_s"]) for row in rows},
            central_accuracy=central,
            seconds=trio.current_time() - self.started_s,
        )

    def _request(self, genesis: Genesis, authority: Ed25519Signer) -> PublishRequest:
        shards = -(-DIGITS // SHARD_SAMPLES)
        lease = -(-shards // self.options.trainers)
        return PublishRequest(
            examine=False,
            genesis=genesis,
            signers=(authority,),
            out=self.record,
            revision=RevisionSettings(
                study="demo", experiment="digits", name="r1", workload=WORKLOAD
            ),
            schedule=ScheduleSettings(
                shard_samples=SHARD_SAMPLES,
                lease_shards=lease,
                max_lease_shards=lease,
                max_roster=max(16, self.options.trainers),
                deadline_s=60.0,
                settle_s=0.3,
                check_limit_s=30.0,
                end_heads=self.options.windows,
            ),
            merge=MergeSettings(),
            canary=CanarySettings(),
            log=self.say,
        )

    async def _watch(self) -> Status:
        """Until all nodes stand on the last head and it was measured. The first validator's status."""
        said, complete_s = "", None
        with trio.move_on_after(LIMIT_S):
            while True:
                self.fleet.check_alive()
                statuses = await self.fleet.ask_all()
                now_s = trio.current_time()
                if (line := self._progress(statuses)) != said:
                    said = line
                    self.say(f"{now_s - self.started_s:6.1f} s  {line}")
                if self._is_complete(statuses):
                    complete_s = complete_s or now_s
                    judge = statuses["validator1"]
                    measured = revision_of(judge)["decisions"][-1]["metric"] is not None
                    if measured or now_s - complete_s > REPORTS_S:
                        return judge
                await trio.sleep(POLL_S)
        raise P2pError(f"no end after {LIMIT_S:g} s: {said}; see {self.directory / 'output'}")

    def _is_complete(self, statuses: dict[str, Status]) -> bool:
        revisions = [revision_of(status) for status in statuses.values()]
        return (
            len(revisions) == len(self.fleet.nodes)
            and all(revision["heads"] >= self.options.windows for revision in revisions)
            and len({(revision["height"], revision["head"]) for revision in revisions}) == 1
        )

    def _progress(self, statuses: dict[str, Status]) -> str:
        line = f"{len(statuses)}/{counted(len(self.fleet.nodes), 'node')} up"
        judge = statuses.get("validator1")
        if judge is None:
            return line
        revision = revision_of(judge)
        line += f", height {revision['height']}, {revision['heads']}/{counted(self.options.windows, 'head')}"
        if revision["leases"]:
            here = sum(lease["state"] == "announced" for lease in revision["leases"])
            line += f", window: {here}/{counted(len(revision['leases']), 'update')}"
        measured = [row["metric"] for row in revision["decisions"] if row["metric"] is not None]
        return line + (f", accuracy {measured[-1]:.3f}" if measured else "")


def _begin(command: list[str]) -> subprocess.Popen[bytes]:
    """From the main thread: the kernel would take the end of trio's helper for that of the parent."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


async def _train_alone(revision: Revision, samples: int, windows: int) -> float:
    """The metric of the same workload trained on as many samples by one process."""
    command = tied("p2pd.workload.alone", revision.workload.module)
    command += ["--config", revision.workload.config, "--samples", str(samples)]
    command += ["--every", str(max(1, samples // windows))]
    process = _begin(command)
    try:
        said, _ = await trio.to_thread.run_sync(process.communicate, abandon_on_cancel=True)
    finally:
        process.kill()
    lines = [json.loads(line) for line in said.splitlines()]
    points = [line["point"] for line in lines if "point" in line]
    if process.returncode != 0 or not points:
        why = next((line["error"] for line in lines if "error" in line), "no result")
        raise P2pError(f"training alone failed: {why}")
    return float(points[-1]["metric"])
