import signal
import sys
from dataclasses import replace

import pytest

from p2pd.io.endings import Watch, ending, place_of
from p2pd.workload.page import Frame
from p2pd.workload.protocol import DESCRIPTORS_LOST


def test_every_end_of_a_process_has_words() -> None:
    assert ending(0) == "exit code 0"
    assert ending(255) == "exit code 255"
    assert ending(-signal.SIGSEGV) == "SIGSEGV"
    assert [ending(-number) for number in (33, 40, 63)] == ["SIG33", "SIG40", "SIG63"]
    assert all(map(ending, range(-signal.NSIG, 256)))


FRAMES = (
    Frame("/venv/site-packages/torch/nn/functional.py", 3, "linear"),
    Frame("/home/me/users.py", 12, "forward"),
    Frame("/home/me/main.py", 99, "train"),
)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's counters are Linux's")
def test_the_end_of_a_process_is_told_with_its_cause() -> None:
    watch = Watch.over("users")
    assert watch.describe(3, ()) == "ended with exit code 3"
    assert watch.describe(-signal.SIGTERM, ()) == "was ended by SIGTERM"
    crash = watch.describe(-signal.SIGSEGV, FRAMES)
    assert crash == "crashed (SIGSEGV) in native code at /home/me/users.py:12"
    assert watch.describe(-signal.SIGBUS, ()).startswith("was ended by SIGBUS: /dev/shm has ")
    assert watch.describe(DESCRIPTORS_LOST, ()).startswith("closed the descriptors that it answers")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's counters are Linux's")
def test_the_kernels_kills_for_want_of_memory_are_told_from_all_others() -> None:
    watch = Watch.over("users")
    if watch.kills is not None:
        killed = watch.describe(-signal.SIGKILL, ())
        assert (
            killed == "was killed (SIGKILL) by somebody, and not by the kernel for want of memory"
        )
        starved = replace(watch, kills=watch.kills - 1).describe(-signal.SIGKILL, ())
        assert starved.startswith("was killed (SIGKILL) by the kernel: out of memory, ")
    unknown = replace(watch, kills=None).describe(-signal.SIGKILL, ())
    assert unknown == "was killed (SIGKILL): probably out of memory"


def test_a_line_of_an_installed_workload_is_the_users_too() -> None:
    frames = (Frame("/venv/site-packages/mine/model.py", 5, "f"),)
    assert place_of(frames, "mine") == " at /venv/site-packages/mine/model.py:5"
    assert place_of(frames, "other") == ""
    odd = (Frame("/home/me/\x1b[2J" + "x" * 9999 + ".py", 5, "f"),)
    assert place_of(odd, "other").startswith(" at /home/me/\\x1b[2Jxxx")
    assert len(place_of(odd, "other")) < 500
