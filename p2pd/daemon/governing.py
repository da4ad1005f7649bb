"""What an operator hands to a running node for the whole network: records of the governance log."""

from p2pd.core.governance import SignedGovernance
from p2pd.core.ids import NetworkId
from p2pd.errors import UsageError
from p2pd.node.node import Node
from p2pd.wire.records import load_governance


async def take_record(node: Node, text: object) -> dict[str, object]:
    """text: the signed record in hex. Once this returns the node holds it durably, and passes it on.

    Raises:
        UsageError: it is no text of such a kind.
        RemoteError: it is not signed by this network's authority, or not the next one.
    """
    signed = _record_of(text, node.genesis.network)
    await node.governance.add(signed)
    return {"number": signed.record.number, "record": signed.record.id.hex()}


def _record_of(text: object, network: NetworkId) -> SignedGovernance:
    if not isinstance(text, str):
        raise UsageError("a governance record is handed over as hex")
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise UsageError(f"a governance record is handed over as hex: {error}") from error
    return load_governance(data, network)
