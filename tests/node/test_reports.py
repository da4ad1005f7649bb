"""Reports are kept together, a little later."""

from typing import Any

import trio

from p2pd.core.messages import Report
from p2pd.node.chronicle import Chronicle
from p2pd.node.reports import PAUSE_S, Reports
from p2pd.ports import Table
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryLedger
from p2pd.wire.envelope import seal
from tests.core.builders import GENESIS, SETTING, VALIDATORS


def report(who: int) -> Any:
    content = Report(GENESIS.head, who, 1, 10)
    return seal(VALIDATORS[who], "report", SETTING.scope(1), content)


def test_what_waits_is_stored_when_the_node_leaves() -> None:
    async def main() -> None:
        ledger = MemoryLedger()
        chronicle = Chronicle(ledger, SETTING)
        Reports(chronicle).add(report(0))
        await chronicle.save_reports()
        assert len(ledger.scan(Table.REPORTS, b"")) == 1
        await chronicle.save_reports()
        assert chronicle.unsaved == []

    assert run_seeded(0, main, 60.0)


def test_reports_are_shown_at_once_and_stored_together() -> None:
    async def main() -> None:
        ledger = MemoryLedger()
        chronicle = Chronicle(ledger, SETTING)
        reports = Reports(chronicle)

        def stored() -> int:
            return len(ledger.scan(Table.REPORTS, b""))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reports.run)
            for who in range(2):
                reports.add(report(who))
                assert len(chronicle.reports(1)) == who + 1
                await trio.sleep(PAUSE_S / 4)
            assert stored() == 0
            await trio.sleep(PAUSE_S)
            assert stored() == 2
            reports.add(report(2))
            await trio.sleep(PAUSE_S / 2)
            assert stored() == 2
            await trio.sleep(PAUSE_S)
            assert stored() == len(chronicle.reports(1)) == 3
            nursery.cancel_scope.cancel()

    assert run_seeded(0, main, 60.0)
