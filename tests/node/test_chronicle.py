from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from p2pd.core.messages import Report
from p2pd.errors import StoreError
from p2pd.node.chronicle import Chronicle, place
from p2pd.ports import Table, Write
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryLedger
from p2pd.wire.envelope import seal
from p2pd.wire.records import dump_record
from tests.core.builders import (
    GENESIS,
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    record,
    running,
    update,
)
from tests.node.node_bench import REVISION

HERE = SETTING.revision.id
FIRST = running(trainers=2)
MINE = update(FIRST, TRAINERS[0])
SECOND = follow(FIRST, choices(FIRST, [MINE], all_present(FIRST)))


def written(main: Callable[[MemoryLedger, Chronicle], Awaitable[None]]) -> None:
    async def bounded() -> None:
        ledger = MemoryLedger()
        await main(ledger, Chronicle(ledger, SETTING))

    assert run_seeded(0, bounded, 10.0)


def test_a_new_ledger_begins_with_the_genesis_decision_and_keeps_it() -> None:
    async def main(ledger: MemoryLedger, chronicle: Chronicle) -> None:
        assert (await chronicle.last()).id == GENESIS.id
        assert len(ledger.scan(Table.DECISIONS, HERE)) == 1
        assert (await Chronicle(ledger, SETTING).last()).id == GENESIS.id

    written(main)


def test_decisions_come_back_in_order() -> None:
    async def main(ledger: MemoryLedger, chronicle: Chronicle) -> None:
        await chronicle.last()
        for decision in (FIRST, SECOND):
            await chronicle.adopt(record(decision))
        assert await chronicle.last() == SECOND
        assert chronicle.record(1) == record(FIRST)
        assert chronicle.record(3) is None
        data = [dump_record(record(one)) for one in (FIRST, SECOND)]
        assert chronicle.records_after(0, 10**6) == tuple(data)
        assert chronicle.records_after(1, 10**6) == (data[1],)
        assert chronicle.records_after(0, len(data[0])) == (data[0],)
        assert chronicle.records_after(2, 10**6) == ()

    written(main)


def test_i10_a_damaged_decision_is_said_and_never_passed_over() -> None:
    async def main(ledger: MemoryLedger, chronicle: Chronicle) -> None:
        await chronicle.last()
        await ledger.commit([Write(Table.DECISIONS, place(HERE, 1), b"damaged")])
        with pytest.raises(StoreError, match="damaged"):
            await chronicle.last()

    written(main)


def test_i10_adopting_forgets_the_votes_and_objects_of_the_heights_before() -> None:
    async def main(ledger: MemoryLedger, chronicle: Chronicle) -> None:
        await chronicle.remember_votes(1, b"old")
        await chronicle.remember_votes(2, b"new")
        await chronicle.keep_own(MINE)
        await chronicle.adopt(record(FIRST))
        assert (chronicle.votes(1), chronicle.votes(2)) == (None, b"new")
        assert [one.id for one in chronicle.own(2, TRAINERS[0].key)] == [MINE.id]
        await chronicle.adopt(record(SECOND))
        assert chronicle.votes(2) is None
        assert chronicle.own(2, TRAINERS[0].key) == ()

    written(main)


def test_own_objects_are_those_of_ones_own_key() -> None:
    async def main(_: MemoryLedger, chronicle: Chronicle) -> None:
        await chronicle.keep_own(MINE)
        await chronicle.keep_own(update(FIRST, TRAINERS[1]))
        assert [one.id for one in chronicle.own(2, TRAINERS[0].key)] == [MINE.id]
        assert chronicle.own(2, VALIDATORS[0].key) == ()

    written(main)


def test_of_each_validator_one_report_is_kept_per_height() -> None:
    def report(who: int, metric: int) -> Any:
        content = Report(FIRST.head, metric, 1, 10)
        return seal(VALIDATORS[who], "report", SETTING.scope(1), content)

    async def main(_: MemoryLedger, chronicle: Chronicle) -> None:
        chronicle.unsaved += [report(0, 1)]
        await chronicle.save_reports()
        chronicle.unsaved += [report(0, 1), report(1, 2)]
        assert sorted(one.content.metric for one in chronicle.reports(1)) == [1, 2]
        await chronicle.save_reports()
        assert chronicle.unsaved == []
        assert sorted(one.content.metric for one in chronicle.reports(1)) == [1, 2]
        assert chronicle.reports(2) == ()

    written(main)


def test_the_signed_revision_is_kept() -> None:
    async def main(ledger: MemoryLedger, chronicle: Chronicle) -> None:
        await chronicle.keep_revision(REVISION)
        assert len(ledger.scan(Table.REVISIONS, HERE)) == 1

    written(main)
