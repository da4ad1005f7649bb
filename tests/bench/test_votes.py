import pytest

from p2pd.bench import votes
from p2pd.bench.suite import Options
from p2pd.core.wording import counted


@pytest.mark.parametrize("validators", [1, 4])
def test_decisions_are_counted_without_faults_beside_their_signatures(validators: int) -> None:
    said: list[str] = []
    row = votes.in_memory(validators, 2, Options(said.append))
    assert (row.name, row.unit) == (f"in memory, {counted(validators, 'validator')}", "1/s")
    assert row.value > 0
    signed = 1 + 2 * validators + 2
    assert row.floor_name == f"PyNaCl, one core: {signed} signed, {signed} verified"
    assert len(said) == 1
