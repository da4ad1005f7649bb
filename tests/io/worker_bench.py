"""A worker with real processes, on a store that is a directory."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from p2pd.core.artifact import Manifest
from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, TrainJob
from p2pd.io.worker import WorkerProcess, WorkerSettings
from tests.io.probe import PROBE

LIMIT_S = 120


class Shelf:
    """Artifacts as files of one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._manifests: dict[ArtifactId, Manifest] = {}
        self._count = 0

    async def sound(self, artifact: ArtifactId) -> Path:
        await trio.lowlevel.checkpoint()
        return self.path(artifact)

    def path(self, artifact: ArtifactId) -> Path:
        return self._root / artifact.hex()

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        return self._manifests.get(artifact)

    @asynccontextmanager
    async def output(self, suffix: str, size_bytes: int) -> AsyncIterator[Path]:
        self._count += 1
        path = self._root / f"temporary-{self._count}{suffix}"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    async def adopt(self, path: Path, manifest: Manifest) -> ArtifactId:
        await trio.Path(path).rename(self.path(manifest.id))
        self._manifests[manifest.id] = manifest
        return manifest.id

    def unfinished(self) -> list[str]:
        return [path.name for path in self._root.glob("temporary-*")]


class Scene:
    def __init__(self, root: Path, **changes: object) -> None:
        self.shelf = Shelf(root)
        self.lines: list[str] = []
        self._came = trio.Event()
        (root / "probe_workload.py").write_text(PROBE)
        settings = {"module": "probe_workload", "paths": (root,), "grace_s": 2.0, "rest_s": 0.0}
        settings |= changes
        self.worker = WorkerProcess(WorkerSettings(**settings), self.shelf, self._log)  # type: ignore[arg-type]

    def _log(self, line: str) -> None:
        self.lines.append(line)
        self._came.set()
        self._came = trio.Event()

    async def said(self, start: str) -> str:
        """The last line that starts so, as soon as there is one."""
        while not (found := [line for line in self.lines if line.startswith(start)]):
            await self._came.wait()
        return found[-1].removeprefix(start).strip()

    def pids(self) -> list[str]:
        """Of the processes that built the workload."""
        built = [line for line in self.lines if line.startswith("built by ")]
        return list(dict.fromkeys(built))


@asynccontextmanager
async def running(scene: Scene) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(scene.worker.run)
        yield
        nursery.cancel_scope.cancel()


def play(scene: Scene, part: Callable[[], Awaitable[None]], limit_s: float = LIMIT_S) -> None:
    async def main() -> None:
        with trio.fail_after(limit_s):
            async with running(scene):
                await part()

    trio.run(main)


def job(base: ArtifactId, seed: int) -> TrainJob:
    return TrainJob(1, base, (1,), 16, Progress(0, 0, 0, 0, 0), seed)


async def ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
