"""A keyed permutation of the microshards of an epoch, computed one place at a time.

A balanced Feistel network of four rounds over the next even power of two, walked until it lands in range
(Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). 10**12 samples cost nothing until they are dealt.
"""

from functools import lru_cache

from p2pd.core.ids import digest

ROUNDS = 4
REMEMBERED = 4096
"""A plan is dealt by each proposal of its height, and again by the check of what was certified."""


@lru_cache(maxsize=REMEMBERED)
def shard_at(seed: bytes, epoch: int, place: int, shards: int) -> int:
    """The microshard at one place, 0 <= place < shards, of the permutation of one epoch."""
    if not 0 <= place < shards:
        raise ValueError(f"place {place} is outside of 0..{shards - 1}")
    half_bits = max(1, ((shards - 1).bit_length() + 1) // 2)
    key = seed + epoch.to_bytes(8)
    value = place
    while (value := _feistel(key, value, half_bits)) >= shards:
        pass
    return value


def _feistel(key: bytes, value: int, half_bits: int) -> int:
    mask = (1 << half_bits) - 1
    left, right = value >> half_bits, value & mask
    for number in range(ROUNDS):
        mixed = digest("permutation", key + bytes([number]) + right.to_bytes(8))
        left, right = right, left ^ (int.from_bytes(mixed[:8]) & mask)
    return left << half_bits | right
