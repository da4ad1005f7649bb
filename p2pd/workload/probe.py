"""What torch finds on this machine, in a process of its own: `python -m p2pd.workload.probe` writes one JSON object.

Units: bytes; floating point operations a second, of float32 matrix products.
"""

import json
import sys
from time import perf_counter

import torch

SIDE = 512
"""Of the matrices."""
LEAST_S = 0.2


def main() -> None:
    found = {
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "devices": [_device("cpu"), *map(_device, _gpus())],
    }
    sys.stdout.write(json.dumps(found))


def _gpus() -> list[str]:
    if torch.cuda.is_available():
        return [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["mps"] if torch.backends.mps.is_available() else []


def _device(name: str) -> dict[str, object]:
    free = total = 0
    kind = "processor"
    if name.startswith("cuda"):
        free, total = torch.cuda.mem_get_info(torch.device(name))
        kind = torch.cuda.get_device_name(torch.device(name))
    return {
        "name": name,
        "kind": kind,
        "free_bytes": free,
        "total_bytes": total,
        "flops": round(_flops(torch.device(name))),
    }


def _flops(device: torch.device) -> float:
    """Of products that wait for one another, so that all of them are done when the time is taken."""
    matrix = torch.full((SIDE, SIDE), 1.0 / SIDE, device=device)
    product = matrix @ matrix
    product.sum().item()
    start_s, rounds = perf_counter(), 0
    while perf_counter() - start_s < LEAST_S:
        for _ in range(10):
            product = product @ matrix
        product.sum().item()
        rounds += 10
    return rounds * 2.0 * SIDE**3 / (perf_counter() - start_s)


if __name__ == "__main__":
    main()
