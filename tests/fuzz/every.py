"""All targets."""

from tests.fuzz.from_data import DATA
from tests.fuzz.from_disk import DISK
from tests.fuzz.from_peers import PEERS
from tests.fuzz.from_workers import WORKERS
from tests.fuzz.targets import Target

TARGETS: dict[str, Target] = {**PEERS, **DISK, **DATA, **WORKERS}
