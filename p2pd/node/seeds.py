"""Well-known nodes, by which others enter a network. Seconds."""

import trio

from p2pd.core.ids import PeerId, short
from p2pd.errors import RemoteError, UnreachableError
from p2pd.ports import Link, Transport


async def dial_seed(
    transport: Transport, address: str, peer: PeerId | None, *, deadline_s: float
) -> tuple[Link | None, str, str]:
    """The link, if there is one now; what to call this state of the seed; and more about it."""
    try:
        with trio.fail_after(deadline_s):
            link = await transport.connect(address, peer)
    except trio.TooSlowError:
        return None, "is out of reach", f"no answer within {deadline_s:g} s"
    except UnreachableError as error:
        return None, "is out of reach", str(error)
    except RemoteError as error:
        return None, "refuses", str(error)
    return link, "is linked", f"peer {short(link.peer)}"
