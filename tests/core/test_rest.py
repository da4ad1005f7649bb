from p2pd.core.rest import Rest


def test_rests_begin_with_the_second_failure_in_a_row_and_double_up_to_the_most() -> None:
    rest, rests = Rest(1.0, 60.0), []
    for number in range(9):
        now_s = 1000.0 * number
        rest.failed(now_s)
        rests.append(max(0.0, rest.until_s - now_s))
    assert rests == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_what_goes_well_ends_the_row() -> None:
    rest = Rest(1.0, 60.0)
    for _ in range(5):
        rest.failed(0.0)
    assert rest.is_on(7.9)
    assert not rest.is_on(8.0)
    rest.went_well()
    rest.failed(100.0)
    assert not rest.is_on(100.0)


def test_rests_stay_finite_however_often_it_fails() -> None:
    rest = Rest(5.0, 300.0, failures=10**6)
    rest.failed(0.0)
    assert rest.until_s == 300.0
