from pathlib import Path

import pytest
import trio

from p2pd.daemon.files import read_genesis
from p2pd.daemon.local import LocalFleet, Member
from p2pd.errors import P2pError
from p2pd.io.keys import create_key

MEMBERS = (Member("seed1", "bootstrap"), Member("v1", "validator"), Member("v2", "validator"))


def test_a_fleet_founds_a_network_of_its_validators(tmp_path: Path) -> None:
    fleet = LocalFleet(tmp_path, "small", MEMBERS, tmp_path / "r.revision.cbor", 5.0)
    genesis = fleet.found(create_key(tmp_path / "authority.key"), 2)
    assert read_genesis(tmp_path / "genesis.cbor").genesis == genesis
    assert (genesis.name, genesis.quorum) == ("small", 2)
    keys = [fleet.signers[name].key for name in ("v1", "v2")]
    assert [seat.key for seat in genesis.validators] == keys


def test_a_node_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    fleet = LocalFleet(tmp_path, "small", MEMBERS, tmp_path / "r.revision.cbor", 60.0)

    async def main() -> None:
        with trio.fail_after(60):
            try:
                await fleet.start()  # there is no genesis
            finally:
                await fleet.stop()

    with pytest.raises(P2pError, match=r"seed1 has ended: .*genesis"):
        trio.run(main)
