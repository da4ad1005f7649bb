from p2pd.io.overlay.unfinished import Unfinished


def test_i09_who_has_let_a_message_wait_longest_makes_room() -> None:
    unfinished = Unfinished[str](100)
    assert unfinished.note("a", 40, begun=False) is None
    assert unfinished.note("b", 40, begun=False) is None
    assert unfinished.note("a", 60, begun=False) is None
    assert unfinished.note("c", 10, begun=False) == "a"
    unfinished.forget("a")
    assert unfinished.total_bytes == 50


def test_who_finishes_one_message_and_begins_another_is_young_again() -> None:
    unfinished = Unfinished[str](100)
    unfinished.note("a", 50, begun=False)
    unfinished.note("b", 50, begun=False)
    unfinished.note("a", 40, begun=True)
    assert unfinished.note("c", 20, begun=False) == "b"


def test_what_is_finished_holds_nothing() -> None:
    unfinished = Unfinished[str](100)
    for _ in range(10):
        assert unfinished.note("a", 90, begun=False) is None
        assert unfinished.note("a", 0, begun=False) is None
    unfinished.forget("a")
    assert unfinished.total_bytes == 0
