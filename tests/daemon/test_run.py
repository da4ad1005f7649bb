import signal
import subprocess
import sys

import pytest

STUBBORN = """
import logging, sys
import trio
from p2pd.daemon import run
logging.basicConfig(format="%(message)s")
run.LEAVE_S = 0.3

async def main():
    async with trio.open_nursery() as nursery:
        departure = run.Departure()
        nursery.start_soon(departure.run)
        await nursery.start(run._heed_signals, departure)
        print("ready", flush=True)
        with departure.life, trio.CancelScope(shield=True):
            await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_that_cannot_leave_in_time_ends_all_the_same(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1
    assert said == "not ready to leave after 0.3 s: ending all the same\n"
