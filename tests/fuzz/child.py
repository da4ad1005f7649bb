"""One target under Atheris: python -m tests.fuzz.child TARGET DIRECTORY SECONDS"""

import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["p2pd"]):
    from tests.fuzz.every import TARGETS

INPUT_BYTES_MAX = 2**16
SLOW_S = 10
MEMORY_MB = 1024
"""For all of the process, torch included."""


def main(name: str, directory: Path, seconds: int) -> None:
    target, corpus = TARGETS[name], directory / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / sha256(seed).hexdigest()).write_bytes(seed)
    arguments = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={SLOW_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={directory}/",
        "-print_final_stats=1",
        str(corpus),
    ]
    with TemporaryDirectory() as scratch:
        place = Path(scratch)
        atheris.Setup([sys.argv[0], *arguments], lambda data: target.run(data, place))
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
