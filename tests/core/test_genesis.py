from typing import Any

import pytest

from p2pd.core.genesis import MAX_VALIDATORS, Seat
from p2pd.core.ids import PublicKey
from tests.core.builders import AUTHORITY, VALIDATORS, genesis


def seats(*weights: int) -> tuple[Seat, ...]:
    return tuple(Seat(PublicKey(n.to_bytes(32)), weight) for n, weight in enumerate(weights))


KEYS = tuple(one.key for one in VALIDATORS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "name must have 1 to 64 printable characters"),
        ({"name": "n" * 65}, "name must have 1 to 64 printable characters"),
        ({"admission": "invite"}, "admission 'invite' is not supported; only open is"),
        ({"authority": ()}, "at least one key, each once"),
        ({"authority": (KEYS[0], KEYS[0])}, "at least one key, each once"),
        ({"authority": (b"short",)}, "32 bytes"),
        ({"validators": (Seat(PublicKey(b"short"), 1),)}, "32 bytes"),
        ({"threshold": 0}, "more than half of 1 authority key, got 0"),
        ({"threshold": 2}, "more than half of 1 authority key, got 2"),
        ({"authority": KEYS, "threshold": 2}, "more than half of 4 authority keys, got 2"),
        ({"authority": KEYS, "threshold": 5}, "more than half of 4 authority keys, got 5"),
        ({"validators": ()}, "at least one key, each once"),
        ({"validators": seats(1) * 2}, "at least one key, each once"),
        ({"validators": seats(0, 1, 1)}, "weight must be from 1"),
        ({"validators": seats(2**20 + 1)}, "weight must be from 1"),
        ({"quorum": 2}, "more than half of the weight 4, got 2"),
        ({"quorum": 5}, "more than half of the weight 4, got 5"),
        ({"quorum": -3}, "more than half of the weight 4, got -3"),
        ({"validators": seats(*[1] * (MAX_VALIDATORS + 1)), "quorum": 100}, "at most 128"),
    ],
)
def test_a_genesis_that_cannot_work_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        genesis(**changes)


def test_a_lab_of_one_and_the_largest_set_are_taken() -> None:
    assert genesis(validators=seats(1), quorum=1).weight == 1
    most = seats(*[2] * MAX_VALIDATORS)
    assert genesis(validators=most, quorum=len(most) + 1).weight == 2 * MAX_VALIDATORS


def test_i02_everything_in_a_genesis_is_in_the_name_of_its_network() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"name": "other"},
        {"nonce": bytes(15) + b"\1"},
        {"authority": (KEYS[0],)},
        {"authority": (KEYS[0], AUTHORITY.key), "threshold": 2},
        {"quorum": 4},
        {"validators": seats(1, 1, 1, 1)},
        {"validators": seats(1, 1, 1, 2)},
    ]
    assert len({genesis(**change).network for change in changes}) == len(changes)
