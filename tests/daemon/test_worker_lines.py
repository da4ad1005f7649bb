from p2pd.daemon.worker_lines import BURST_BYTES, KEPT, RATE_BYTES_S, WorkerLines


class Bench:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.written: list[str] = []
        self.lines = WorkerLines(self.written.append, lambda: self.now_s)


def test_what_is_printed_is_written_as_it_is_and_its_end_is_kept() -> None:
    bench = Bench()
    for number in range(100):
        bench.lines.say(f"line {number}")
    bench.lines.look()
    assert bench.written == [f"line {number}" for number in range(100)]
    assert bench.lines.last() == tuple(bench.written[-KEPT:])


def test_a_flood_is_cut_short_counted_and_its_end_is_written() -> None:
    bench = Bench()
    line, count = "x" * 999, 5000
    for _ in range(count):
        bench.lines.say(line)
    bench.lines.say("Traceback: the reason")
    bench.lines.look()
    assert len(bench.written) == BURST_BYTES // 1000
    bench.now_s += 1.0
    bench.lines.look()
    left_out = count + 1 - BURST_BYTES // 1000 - KEPT
    assert bench.written[-KEPT - 1] == f"({left_out} lines of the workload are left out here)"
    assert bench.written[-1] == "Traceback: the reason"
    bench.lines.say("and on it goes")
    assert bench.written[-1] == "and on it goes"


def test_whatever_is_printed_no_more_is_written_than_a_burst_and_a_rate() -> None:
    bench = Bench()
    for tick in range(40 * 60):
        bench.now_s = tick / 40
        for _ in range(40):
            bench.lines.say("y" * 199)
        if tick % 40 == 0:
            bench.lines.look()
    written = sum(len(line) + 1 for line in bench.written)
    assert written <= BURST_BYTES + 60 * RATE_BYTES_S + 60 * 100
