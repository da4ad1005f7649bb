"""What the user's code may change for all that follows it in the same process, and how it is put back.

A lease that leaves another default type behind must not change what the next one, or an evaluation, computes.
"""

import os
import sys
from contextlib import suppress

import torch

from p2pd.core.wording import counted


class Defaults:
    """As they are when this is made."""

    def __init__(self) -> None:
        self._dtype = torch.get_default_dtype()
        self._device = torch.get_default_device()
        self._grad = torch.is_grad_enabled()
        self._threads = torch.get_num_threads()
        self._directory = _directory()

    def changes(self) -> list[str]:
        """What is otherwise by now, in words."""
        found = []
        if (dtype := torch.get_default_dtype()) != self._dtype:
            found.append(f"default dtype {dtype}")
        if (device := torch.get_default_device()) != self._device:
            found.append(f"default device {device}")
        if torch.is_grad_enabled() != self._grad:
            found.append("gradients " + ("off" if self._grad else "on"))
        if (threads := torch.get_num_threads()) != self._threads:
            found.append(f"{counted(threads, 'thread')} of torch")
        if (directory := _directory()) != self._directory:
            found.append(f"working directory {directory}")
        return found

    def restore(self) -> list[str]:
        """What it had to put back; says so in a line of the worker's output."""
        changed = self.changes()
        if not changed:
            return changed
        torch.set_default_dtype(self._dtype)
        torch.set_default_device(self._device)
        torch.set_grad_enabled(self._grad)
        torch.set_num_threads(self._threads)
        with suppress(OSError):  # it may have been removed
            os.chdir(self._directory)
        with suppress(OSError, ValueError, AttributeError):  # the user's code may have closed it
            sys.stderr.write(f"p2pd: put back what the workload left: {', '.join(changed)}\n")
        return changed


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - text, compared and never opened
    except OSError:
        return ""
