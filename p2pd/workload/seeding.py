"""Puts every source of chance that a user's code may draw from to a known place."""

import random

import numpy as np
import torch


def seed_all(seed: int) -> None:
    """For a dataset, a sampler, a dropout layer or an augmentation; 64 bits."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
