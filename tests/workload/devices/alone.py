"""The crewed workload on one device, in this process: what several workers are compared with."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from p2pd.core.work import TrainJob
from p2pd.tensors.files import TensorFile
from p2pd.tensors.updates import WHOLE
from p2pd.workload.protocol import BuildCall, Done, TrainCall
from p2pd.workload.session import Session

MODULE = "crewed_workload"


class Alone:
    def __init__(self, root: Path, config: str) -> None:
        self.written = root / "alone.safetensors"
        self._session = Session(BuildCall(MODULE, config, 1))

    def train(self, work: TrainJob, base: Path) -> Done:
        self.written.unlink(missing_ok=True)
        paths = map(os.fsencode, (base, self.written))
        return self._session.train(TrainCall(work, *paths), lambda: None)

    def apart(self, other: Path) -> float:
        """The most by which a value of an update differs from the one that was written last."""
        ours, theirs = TensorFile(self.written), TensorFile(other)
        return max(
            float(abs(ours.values(place, WHOLE) - theirs.values(place, WHOLE)).max())
            for place in range(len(ours.tensors))
        )


@contextmanager
def alone(root: Path, config: str) -> Iterator[Alone]:
    """The workload is the one that lies in root."""
    sys.path.insert(0, str(root))
    sys.modules.pop(MODULE, None)
    try:
        yield Alone(root, config)
    finally:
        sys.path.remove(str(root))
        sys.modules.pop(MODULE, None)
