"""Brings an artifact into the store of a node, and says why where it does not come. Seconds."""

import logging
from collections.abc import Sequence

import trio

from p2pd.core.ids import PeerId, short
from p2pd.errors import NoRoomError, RemoteError, StoreError, UnreachableError
from p2pd.node.hub import Hub
from p2pd.node.wanted import Wanted

log = logging.getLogger("p2pd.lane")


async def bring(
    hub: Hub,
    wanted: Wanted,
    providers: Sequence[PeerId],
    *,
    others: Sequence[PeerId],
    limit_s: float,
) -> bool:
    """False if it is something else, or there is no room, or nobody brings it within limit_s."""
    try:
        manifest = hub.blobs.manifest(wanted.artifact)
        if manifest is not None and hub.blobs.has(wanted.artifact):
            wanted.check(manifest)
            if await hub.blobs.check(wanted.artifact):
                return True
        with trio.move_on_after(limit_s):
            await hub.transfer.fetch(wanted, providers, others=others)
            return True
    except NoRoomError:
        return False  # the store has said so
    except (RemoteError, UnreachableError, StoreError) as error:
        log.warning("artifact %s was not fetched: %s", short(wanted.artifact), error)
    return False
