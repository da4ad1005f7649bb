"""The math process: python -m p2pd.tensors.serve READ_FD WRITE_FD MEMORY_BYTES THREADS.

Takes one call at a time from the first inherited pipe and answers on the second. Ends with its
pipe, and with the thread that started it. The parent sets the thread counts of
numeric libraries in the environment, before numpy is loaded here.
"""

import os
import resource
import sys
from pathlib import Path

from p2pd.core.encoding import decode, encode
from p2pd.core.work import InspectJob, MergeJob, RebuildJob
from p2pd.errors import LocalError, RemoteError, StoreError, UsageError
from p2pd.lifeline import end_with
from p2pd.tensors.calls import FRAME_BYTES_MAX, Answer, Call, CallKind, Outcome
from p2pd.tensors.frames import read_frame, write_frame
from p2pd.tensors.golden import self_test
from p2pd.tensors.inspection import inspect
from p2pd.tensors.layout import layout_of
from p2pd.tensors.merge import Outputs, merge
from p2pd.tensors.stepping import rebuild

SMALL_BYTES = 8 * 2**20
"""A smaller model is merged before threads have started."""


def main(arguments: list[str]) -> None:
    read_descriptor, write_descriptor, memory_bytes, threads = map(int, arguments)
    end_with(os.getppid())
    # The data limit counts what is allocated, not the mapped files, which may be many times larger.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    while (frame := read_frame(read_descriptor, FRAME_BYTES_MAX)) is not None:
        write_frame(write_descriptor, encode(answer(frame, memory_bytes, threads)))


def answer(frame: bytes, memory_bytes: int, threads: int) -> Answer:
    """Carries out one call. Errors that are ours travel as such; any other ends the process."""
    try:
        call = decode(Call, frame, limit_bytes=FRAME_BYTES_MAX)
        return Answer(Outcome.DONE, "", carry_out(call, threads))
    except RemoteError as error:
        return Answer(Outcome.REMOTE, str(error), b"")
    except LocalError as error:
        return Answer(Outcome.LOCAL, str(error), b"")
    except StoreError as error:
        return Answer(Outcome.STORE, str(error), b"")
    except UsageError as error:
        return Answer(Outcome.USAGE, str(error), b"")
    except MemoryError:
        text = f"the memory limit of the math process, {memory_bytes} bytes, is too small: use a smaller model"
        return Answer(Outcome.USAGE, text, b"")


def carry_out(call: Call, threads: int) -> bytes:
    """The encoded result."""
    paths = {entry.artifact: Path(entry.path) for entry in call.files}
    match call.kind:
        case CallKind.INSPECT:
            return encode(inspect(paths, decode(InspectJob, call.job, limit_bytes=FRAME_BYTES_MAX)))
        case CallKind.MERGE:
            job = decode(MergeJob, call.job, limit_bytes=FRAME_BYTES_MAX)
            if layout_of(job.schema.tensors).size_bytes < SMALL_BYTES:
                threads = 1
            outputs = Outputs(*map(Path, (call.output, call.outer_output, call.step_output)))
            return encode(merge(paths, job, outputs, threads=threads))
        case CallKind.REBUILD:
            rebuilding = decode(RebuildJob, call.job, limit_bytes=FRAME_BYTES_MAX)
            return encode(rebuild(paths, rebuilding, Path(call.output)))
        case CallKind.SELF_TEST:
            self_test(threads)
            return b""


if __name__ == "__main__":
    main(sys.argv[1:])
