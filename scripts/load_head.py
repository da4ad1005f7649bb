"""Loads an exported head with torch alone and prints its accuracy: python scripts/load_head.py HEAD.safetensors"""

import json
import random
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

raw = Path(sys.argv[1]).read_bytes()
start = 8 + int.from_bytes(raw[:8], "little")
tensors = {
    name: torch.frombuffer(bytearray(raw[start + at[0] : start + at[1]]), dtype=torch.float32)
    .reshape(entry["shape"])
    for name, entry in json.loads(raw[8:start]).items()
    if (at := entry["data_offsets"])
}  # fmt: skip
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
model.load_state_dict(tensors)
order = list(range(1797))
random.Random(0).shuffle(order)
pixels, digits = (torch.tensor(part)[order[-360:]] for part in load_digits(return_X_y=True))
print((model(pixels.float() / 16).argmax(dim=1) == digits).float().mean().item())
