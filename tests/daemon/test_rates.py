from collections.abc import Mapping

from p2pd.core.ids import PeerId
from p2pd.daemon.rates import Flow, Rates
from p2pd.io.overlay import LinkCounters

ALICE, BOB = PeerId(b"a" * 32), PeerId(b"b" * 32)


def test_a_rate_is_what_came_since_the_last_sample() -> None:
    totals: dict[PeerId, LinkCounters] = {}

    def counters() -> Mapping[PeerId, LinkCounters]:
        return totals

    rates = Rates(counters)
    totals[ALICE] = LinkCounters(1000, 200)
    assert rates.flows() == {ALICE: Flow(1000, 200, 0.0, 0.0)}
    rates.sample(2.0)
    assert rates.flows() == {ALICE: Flow(1000, 200, 500.0, 100.0)}
    totals[ALICE], totals[BOB] = LinkCounters(1600, 200), LinkCounters(0, 50)
    rates.sample(2.0)
    assert rates.flows() == {ALICE: Flow(1600, 200, 300.0, 0.0), BOB: Flow(0, 50, 0.0, 25.0)}


def test_a_new_connection_to_the_same_peer_counts_from_zero() -> None:
    totals = {ALICE: LinkCounters(1000, 1000)}
    rates = Rates(lambda: totals)
    rates.sample(1.0)
    totals[ALICE] = LinkCounters(60, 40)
    rates.sample(2.0)
    assert rates.flows() == {ALICE: Flow(60, 40, 30.0, 20.0)}
