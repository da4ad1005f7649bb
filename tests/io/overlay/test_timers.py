import gc
import math
import weakref
from random import Random

from p2pd.io.overlay.timers import STALE_LEAST, Timers


class Owner:
    pass


def test_each_comes_once_at_the_time_that_was_named_last() -> None:
    timers = Timers[str]()
    timers.arm("a", 3.0)
    timers.arm("b", 2.0)
    timers.arm("a", 1.0)
    assert timers.next_s() == 1.0
    timers.arm("a", 2.5)
    assert timers.next_s() == 2.0
    assert timers.due(2.5) == ["b", "a"]
    assert timers.due(9.0) == []
    timers.arm("a", 10.0)
    timers.disarm("a")
    timers.disarm("a")
    assert timers.due(20.0) == []


def test_i09_what_is_disarmed_is_let_go_before_its_time() -> None:
    timers, owner = Timers[Owner](), Owner()
    gone = weakref.ref(owner)
    timers.arm(owner, 1e9)
    timers.disarm(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_i09_numbers_left_behind_are_few() -> None:
    timers, kept = Timers[int](), 10
    for number in range(10_000):
        timers.arm(number, 60.0 + number)
        if number >= kept:
            timers.disarm(number)
    assert len(timers) <= 2 * kept + STALE_LEAST
    assert timers.due(1e9) == list(range(kept))


def test_it_agrees_with_a_dictionary() -> None:
    dice, timers, naive, now_s = Random(1), Timers[int](), dict[int, float](), 0.0
    for _ in range(5000):
        owner = dice.randrange(50)
        if dice.random() < 0.2:
            timers.disarm(owner)
            naive.pop(owner, None)
        else:
            at_s = now_s + dice.uniform(0.0, 5.0)
            timers.arm(owner, at_s)
            naive[owner] = at_s
        assert timers.next_s() == min(naive.values(), default=math.inf)
        now_s += dice.uniform(0.0, 0.1)
        due = [owner for owner, at_s in naive.items() if at_s <= now_s]
        assert sorted(timers.due(now_s)) == sorted(due)
        for one in due:
            del naive[one]
