"""The floor of a merge: torch alone, in memory. `python -m p2pd.bench.torch_mean THREADS TIMES WEIGHT FILE ...`.

Prints the seconds that the weighted mean of the files' tensors takes, the best of so many times:
one pass of multiply and add in float32 with the result in place, as torch does it best. Reading the
files into memory comes before.
"""

import sys
from pathlib import Path
from time import perf_counter

import torch

from p2pd.tensors.files import TensorFile

PAIR = 2


def main(arguments: list[str]) -> None:
    threads, times, *rest = arguments
    torch.set_num_threads(int(threads))
    weights = [int(weight) for weight in rest[::PAIR]]
    models = [load(Path(path)) for path in rest[1::PAIR]]
    found = []
    for _ in range(int(times)):
        started_s = perf_counter()
        for tensors in zip(*models, strict=True):
            mean(tensors, weights)
        found.append(perf_counter() - started_s)
    sys.stdout.write(f"{min(found)}\n")


def load(path: Path) -> list[torch.Tensor]:
    file = TensorFile(path)
    return [torch.from_numpy(file.stored(index).copy()) for index in range(len(file.tensors))]


def mean(tensors: tuple[torch.Tensor, ...], weights: list[int]) -> torch.Tensor:
    total = sum(weights)
    merged = tensors[0] * (weights[0] / total)
    for tensor, weight in zip(tensors[1:], weights[1:], strict=True):
        merged.add_(tensor, alpha=weight / total)
    return merged


if __name__ == "__main__":
    main(sys.argv[1:])
