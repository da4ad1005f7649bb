"""Brings an artifact into the store of a node, and says why where it does not come."""

import logging
from collections.abc import Sequence

from p2pd.core.ids import PeerId, short
from p2pd.errors import NoRoomError, RemoteError, StoreError, UnreachableError
from p2pd.node.hub import Hub
from p2pd.node.wanted import Wanted

log = logging.getLogger("p2pd.lane")


async def bring(
    hub: Hub, wanted: Wanted, providers: Sequence[PeerId], *, others: Sequence[PeerId]
) -> bool:
    """False if it is something else, or nobody has it, or there is no room. The caller owns the deadline."""
    try:
        manifest = hub.blobs.manifest(wanted.artifact)
        if manifest is not None and hub.blobs.has(wanted.artifact):
            wanted.check(manifest)
            if await hub.blobs.check(wanted.artifact):
                return True
        await hub.transfer.fetch(wanted, providers, others=others)
    except NoRoomError:
        return False  # the store has said so
    except (RemoteError, UnreachableError, StoreError) as error:
        log.warning("artifact %s was not fetched: %s", short(wanted.artifact), error)
        return False
    return True
