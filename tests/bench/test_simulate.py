from p2pd.bench import simulate
from p2pd.bench.suite import Options
from p2pd.sim.suite import FaultSet, FleetShape


def test_it_measures_virtual_time_and_decisions_of_whole_fleets() -> None:
    said: list[str] = []
    shape = FleetShape(windows=1, faults=FaultSet.NONE)
    time, decisions = simulate.measure(shape, range(2), Options(said.append))
    assert (time.name, time.unit, time.floor) == ("faults none: virtual time", "s/s", 1.0)
    assert (decisions.name, decisions.unit) == ("faults none: decisions", "1/s")
    assert min(time.value, decisions.value) > 0
    assert len(said) == 2
