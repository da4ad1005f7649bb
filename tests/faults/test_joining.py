"""Reported faults of joining: clocks that are wrong, addresses that nobody can dial, identities that are copied."""

import logging

import pytest
import trio

from p2pd.node.clock import ClockWatch
from tests.node.discovery_bench import Bench, run, signer_of

MINUTE_MS = 60_000


@pytest.mark.parametrize("minutes", [10, -10])
def test_a_wrong_clock_is_said_costs_no_link_and_once_it_is_right_all_is_well(
    minutes: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def said() -> list[str]:
        return [r.getMessage() for r in caplog.records if "clock skew" in r.getMessage()]

    async def scenario(bench: Bench) -> None:
        nodes = await bench.fleet(4)
        wrong = await bench.start("wrong", skew_ms=minutes * MINUTE_MS)
        await trio.sleep(120.0)
        assert nodes[0].peer in wrong.linked()
        assert not [node.name for node in nodes if node.discovery.clock.trouble()]
        (words,) = said()
        assert f"10 min {'ahead of' if minutes > 0 else 'behind'}" in words
        assert "set it" in wrong.discovery.clock.trouble()
        wrong.skew_ms = 0
        await trio.sleep(30.0)
        assert wrong.discovery.clock.trouble() == ""
        assert said()[1:] == ["clock skew is over"]
        await trio.sleep(60.0)
        assert wrong.linked() == {node.peer for node in nodes}
        assert all(wrong.peer in node.linked() for node in nodes)

    run(scenario)


def test_a_minority_of_liars_does_not_make_a_clock_wrong() -> None:
    watch = ClockWatch()
    for n, ahead_ms in enumerate([0, 5, -3, 10**15, -(10**15)]):
        watch.note(signer_of(str(n)).peer, 1000 + ahead_ms, 1000)
    assert abs(watch.off_ms()) <= 5
    assert watch.trouble() == ""
