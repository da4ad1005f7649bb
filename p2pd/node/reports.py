"""Keeps what validators measured: shown to people, waited for by nobody. Seconds."""

import trio

from p2pd.core.messages import Report
from p2pd.core.signed import Signed
from p2pd.node.chronicle import Chronicle

PAUSE_S = 1.0
"""Reports are stored together, so long after the first of them came: each commit holds up the next."""


class Reports:
    def __init__(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle
        self._begun = trio.Event()

    def add(self, report: Signed[Report]) -> None:
        self._chronicle.unsaved.append(report)
        self._begun.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._begun.wait()
            await trio.sleep(PAUSE_S)
            self._begun = trio.Event()
            await self._chronicle.save_reports()
