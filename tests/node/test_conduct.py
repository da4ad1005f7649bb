"""Who is shunned, for what, and for how long."""

from p2pd.core.ids import PeerId
from p2pd.node.conduct import (
    ACCOUNTS_MOST,
    DROPPED_PER_FAULT,
    FAULTS_MOST,
    FORGIVE_S,
    MEMBER,
    SHUN_BASE_S,
    SHUN_MOST_S,
    STRANGER,
    STRANGERS,
    Conduct,
    cost_of,
)

MINE, OTHER = PeerId(b"m" * 32), PeerId(b"o" * 32)


def stranger(number: int) -> PeerId:
    return PeerId(number.to_bytes(32))


def test_i09_too_many_faults_shun_a_peer_for_twice_as_long_each_time() -> None:
    conduct, now_s, spans = Conduct([]), 0.0, []
    for _ in range(8):
        for _ in range(FAULTS_MOST - 1):
            assert not conduct.fault(OTHER, now_s)
        assert not conduct.is_shunned(OTHER, now_s)
        assert conduct.fault(OTHER, now_s)
        assert conduct.is_shunned(OTHER, now_s)
        until_s = conduct.shunned_until_s(OTHER)
        spans.append(until_s - now_s)
        now_s = until_s
        assert not conduct.is_shunned(OTHER, now_s)
    assert spans[:3] == [SHUN_BASE_S, 2 * SHUN_BASE_S, 4 * SHUN_BASE_S]
    assert spans[-1] == SHUN_MOST_S


def test_a_fault_now_and_then_is_forgiven() -> None:
    conduct = Conduct([])
    assert not any(conduct.fault(OTHER, n * FORGIVE_S) for n in range(10 * FAULTS_MOST))


def test_a_grave_fault_counts_for_several() -> None:
    conduct = Conduct([])
    assert [conduct.fault(OTHER, 0.0, weight=FAULTS_MOST // 2) for _ in range(2)] == [False, True]


def test_i09_of_what_one_peer_sends_no_more_is_read_than_its_allowance() -> None:
    conduct, seconds = Conduct([]), 60
    read = sum(conduct.allows(OTHER, 1.0, n / 10_000) for n in range(10_000 * seconds))
    most = STRANGER.most + STRANGER.units_s * seconds
    assert 0.99 * most < read <= most + 1


def test_who_goes_on_sending_all_the_same_is_shunned_in_the_end() -> None:
    conduct, dropped = Conduct([]), 0
    while not conduct.is_shunned(OTHER, 0.0):
        if not conduct.allows(OTHER, 1.0, 0.0):
            dropped += 1
            conduct.insists(OTHER, 0.0)
    assert dropped == DROPPED_PER_FAULT * FAULTS_MOST


def test_i09_strangers_share_one_allowance_and_cannot_starve_a_member() -> None:
    conduct = Conduct([MINE])
    read, now_s = 0, 0.0
    for turn in range(100):
        now_s = turn / 10
        for number in range(256):
            read += sum(conduct.allows(stranger(number), 10.0, now_s) for _ in range(10))
    assert read * 10 < STRANGERS.most + STRANGERS.units_s * now_s + 2560
    innocent = stranger(999)
    assert not conduct.allows(innocent, 1.0, now_s)  # what others used up
    assert not any(conduct.insists(innocent, now_s) for _ in range(100_000))
    assert conduct.allows(MINE, MEMBER.most, now_s)


def test_a_large_answer_leaves_a_debt_that_is_waited_for() -> None:
    conduct = Conduct([])
    assert conduct.ready_s(OTHER, 5.0) == 5.0
    conduct.charge(OTHER, STRANGER.most + 3 * STRANGER.units_s, 5.0)
    assert conduct.ready_s(OTHER, 5.0) == 8.0
    assert not conduct.allows(OTHER, 1.0, 7.9)
    assert conduct.allows(OTHER, 1.0, 8.1)


def test_i09_ever_new_peers_are_forgotten_in_their_turn() -> None:
    conduct = Conduct([])
    for number in range(3 * ACCOUNTS_MOST):
        conduct.fault(stranger(number), 0.0)
        conduct.fault(OTHER, 0.0, weight=0)
    assert len(conduct._accounts) == ACCOUNTS_MOST
    assert OTHER in conduct._accounts


def test_a_message_costs_by_its_size() -> None:
    assert cost_of(b"") == 1.0
    assert 4000 < cost_of(bytes(2**20)) < 5000 < STRANGER.most
