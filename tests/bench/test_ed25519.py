import pytest

from p2pd.bench.ed25519 import decisions_row, signature_s


def test_the_floor_counts_what_a_decision_must_have_signed_and_verified() -> None:
    alone = decisions_row("d", 10.0, validators=3, trainers=2, nodes=1)
    assert alone.floor_name == "PyNaCl, one core: 11 signed, 11 verified"
    apart = decisions_row("d", 10.0, validators=3, trainers=2, nodes=3)
    # each validator verifies four of the trainers, and what the two others and the proposer say
    assert apart.floor_name == "PyNaCl, one core: 11 signed, 26 verified"
    assert alone.floor is not None
    assert alone.ratio == pytest.approx(10.0 / alone.floor)


def test_a_signature_takes_time() -> None:
    sign_s, verify_s = signature_s()
    assert sign_s > 0
    assert verify_s > 0
