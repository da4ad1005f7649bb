"""A node that ends with the process that started it: `python -m p2pd.daemon.tied PARENT_PID CONFIG`."""

import signal
import sys
from pathlib import Path

from p2pd.daemon.run import FAILED, USAGE, run
from p2pd.errors import P2pError, UsageError, lines_of
from p2pd.lifeline import end_with


def main() -> int:
    parent, config = int(sys.argv[1]), Path(sys.argv[2])
    end_with(parent, signal.SIGTERM)  # so that the node can end its own subprocesses
    try:
        return run(None, config, ())
    except P2pError as error:
        sys.stderr.write("".join(f"p2pd: {line}\n" for line in lines_of(error)))
        return USAGE if isinstance(error, UsageError) else FAILED


if __name__ == "__main__":
    sys.exit(main())
