"""Reports are kept together, a little later."""

from collections.abc import Iterable
from typing import Any

import trio
import trio.testing

from p2pd.core.messages import Report
from p2pd.core.signed import Signed
from p2pd.node.chronicle import Chronicle
from p2pd.node.reports import PAUSE_S, Reports
from p2pd.sim.store import MemoryLedger
from p2pd.wire.envelope import seal
from tests.core.builders import GENESIS, SETTING, VALIDATORS


def report(who: int) -> Any:
    content = Report(GENESIS.head, who, 1, 10)
    return seal(VALIDATORS[who], "report", SETTING.scope(1), content)


def test_reports_that_come_together_cost_one_commit() -> None:
    async def main() -> None:
        chronicle = Chronicle(MemoryLedger(), SETTING)
        reports, kept = Reports(chronicle), []
        keep = chronicle.keep_reports

        async def count(reports: Iterable[Signed[Report]]) -> None:
            them = list(reports)
            kept.append(len(them))
            await keep(them)

        chronicle.keep_reports = count  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reports.run)
            for who in range(2):
                reports.add(report(who))
                await trio.sleep(PAUSE_S / 4)
            assert chronicle.reports(1) == ()
            await trio.sleep(PAUSE_S)
            assert len(chronicle.reports(1)) == 2
            reports.add(report(2))
            await trio.sleep(2 * PAUSE_S)
            nursery.cancel_scope.cancel()
        assert kept == [2, 1]
        assert len(chronicle.reports(1)) == 3

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))
