import signal

from p2pd.io.endings import ending


def test_every_end_of_a_process_has_words() -> None:
    assert ending(0) == "exit code 0"
    assert ending(255) == "exit code 255"
    assert ending(-signal.SIGSEGV) == "SIGSEGV"
    assert [ending(-number) for number in (33, 40, 63)] == ["SIG33", "SIG40", "SIG63"]
    assert all(map(ending, range(-signal.NSIG, 256)))
