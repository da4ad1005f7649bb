"""Mixed precision: what is computed in a smaller type, and the scale that keeps its gradients from vanishing."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.optim import Optimizer

from p2pd.errors import WorkloadError

DTYPES = {"f32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""f32: everything in the types that the model has."""


class Precision:
    def __init__(self, name: str, device: torch.device) -> None:
        if name not in DTYPES:
            raise WorkloadError(f"precision {name!r} is none of {', '.join(DTYPES)}: name one")
        self._dtype = DTYPES[name]
        self._device = device.type
        # bfloat16 has the range of float32: only float16 needs a scale.
        self.scaler = torch.amp.GradScaler(self._device, enabled=name == "fp16")

    def forward(self) -> AbstractContextManager[object]:
        if self._dtype is None:
            return nullcontext()
        return torch.autocast(self._device, dtype=self._dtype)

    def begin(self) -> None:
        """A lease: its first step may leave this worker without a loss, and the scale is made with the first one."""
        self.scaler.scale(torch.zeros((), device=self._device))

    def backward(self, loss: torch.Tensor) -> None:
        torch.autograd.backward(self.scaler.scale(loss))

    def unscale(self, optimizer: Optimizer) -> None:
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> None:
        """Left out by the scaler where the gradients overflowed, which lowers its scale."""
        self.scaler.step(optimizer)
