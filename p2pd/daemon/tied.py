"""A node that ends with the process that started it: `python -m p2pd.daemon.tied PARENT_PID CONFIG`."""

import ctypes
import os
import signal
import sys
from pathlib import Path

from p2pd.daemon.run import FAILED, USAGE, run
from p2pd.errors import P2pError, UsageError

PR_SET_PDEATHSIG = 1
"""Source: prctl(2)."""
LEFT_ALONE = 1


def main() -> int:
    parent, config = int(sys.argv[1]), Path(sys.argv[2])
    if sys.platform == "linux":
        # SIGTERM, so that the node can end its own subprocesses.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return LEFT_ALONE  # it died before this process could ask to be told
    try:
        return run(None, config, ())
    except P2pError as error:
        sys.stderr.write("".join(f"p2pd: {line}\n" for line in str(error).splitlines()))
        return USAGE if isinstance(error, UsageError) else FAILED


if __name__ == "__main__":
    sys.exit(main())
