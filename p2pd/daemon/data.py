"""The sources of data that a node asks: those that its operator names, then those that its revision names."""

import json
import logging

from p2pd.config.names import check_url
from p2pd.config.node import DataSettings
from p2pd.core.revision import SignedRevision
from p2pd.errors import UsageError
from p2pd.io.data_sources import open_sources
from p2pd.ports import DataSource

log = logging.getLogger("p2pd.daemon")

KEY = "sources"
"""Of a workload's config: URLs, a list of them or one text with blanks between."""
NAMED_MOST = 16


def sources_of(settings: DataSettings, signed: SignedRevision | None) -> tuple[DataSource, ...]:
    """
    Raises:
        UsageError: one that the operator names is none.
    """
    named = () if signed is None else named_in(signed.revision.workload.config)
    return open_sources(list(dict.fromkeys((*settings.sources, *named))), settings.source_s)


def named_in(config: str) -> tuple[str, ...]:
    """A revision names web servers only: what lies on this machine is its operator's to name."""
    content = json.loads(config)
    found = content.get(KEY) if isinstance(content, dict) else None
    words = found.split() if isinstance(found, str) else found if isinstance(found, list) else ()
    urls: list[str] = []
    for word in words[:NAMED_MOST]:
        try:
            check_url(word if isinstance(word, str) else "")
        except UsageError as error:
            log.warning("the revision names a source of data that is left out: %s", error)
        else:
            urls.append(word)
    return tuple(urls)
