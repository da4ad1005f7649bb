"""Puts every source of chance that a user's code may draw from to a known place."""

import random

import numpy as np
import torch

BETWEEN_RANKS = 0x9E3779B97F4A7C15
"""Odd, and far from small."""


def seed_all(seed: int) -> None:
    """For a dataset, a sampler, a dropout layer or an augmentation; 64 bits."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def seed_of(seed: int, rank: int) -> int:
    """Of a lease in one of several workers, so that each has dropout and augmentation of its own."""
    return (seed + rank * BETWEEN_RANKS) % 2**64
