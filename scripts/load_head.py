"""Loads an exported head of the digits with torch alone and prints its accuracy: load_head.py HEAD.safetensors

read_tensors reads a head of any model; p2pd.load_head(model, path) does it where p2pd is installed.
"""

import json
import random
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Of a safetensors file: eight bytes with the size of the header, the header as JSON, the tensors."""
    raw = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        begin, end = (start + place for place in entry["data_offsets"])
        dtype = DTYPES[entry["dtype"]]
        flat = torch.frombuffer(raw[begin:end], dtype=dtype) if end > begin else torch.empty(0)
        tensors[name] = flat.to(dtype).reshape(entry["shape"])
    return tensors


def main() -> None:
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    model.load_state_dict(read_tensors(Path(sys.argv[1])))
    order = list(range(1797))
    random.Random(0).shuffle(order)
    pixels, digits = (torch.tensor(part)[order[-360:]] for part in load_digits(return_X_y=True))
    print((model(pixels.float() / 16).argmax(dim=1) == digits).float().mean().item())


if __name__ == "__main__":
    main()
