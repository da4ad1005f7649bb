from p2pd.core.seldom import Seldom


def test_what_comes_too_soon_is_left_out_and_counted() -> None:
    seldom = Seldom(10.0)
    said = [seldom.due(now_s) for now_s in (5.0, 5.5, 14.9, 15.0, 40.0, 41.0, 50.0)]
    assert said == [0, None, None, 2, 0, None, 1]
