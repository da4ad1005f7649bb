import pytest

from p2pd.core.messages import Report
from p2pd.core.work import COUNT_MAX, LOSS_MAX, Figure, require_figures
from p2pd.wire.envelope import dump, load, seal
from tests.core.builders import GENESIS, SETTING, VALIDATORS


def test_figures_are_few_named_once_and_of_bounded_size() -> None:
    require_figures(tuple(Figure(f"top{n}", n) for n in range(8)))
    for figures in (
        tuple(Figure(f"top{n}", n) for n in range(9)),
        (Figure("f1", 1), Figure("f1", 2)),
        (Figure("", 1),),
        (Figure("ñ" * 17, 1),),
        (Figure("f1", -LOSS_MAX - 1),),
    ):
        with pytest.raises(ValueError, match="figure"):
            require_figures(figures)


def test_the_fullest_report_fits_into_its_envelope() -> None:
    figures = tuple(Figure(str(n) + "ñ" * 15, -LOSS_MAX) for n in range(8))
    content = Report(GENESIS.head, LOSS_MAX, LOSS_MAX, COUNT_MAX, figures)
    report = seal(VALIDATORS[0], "report", SETTING.scope(1), content)
    assert load(dump(report), SETTING.genesis.network) == report
