import pytest

from p2pd.core.work import LOSS_MAX, Figure, require_figures


def test_figures_are_few_named_once_and_of_bounded_size() -> None:
    require_figures(tuple(Figure(f"top{n}", n) for n in range(8)))
    for figures in (
        tuple(Figure(f"top{n}", n) for n in range(9)),
        (Figure("f1", 1), Figure("f1", 2)),
        (Figure("", 1),),
        (Figure("n" * 33, 1),),
        (Figure("f1", -LOSS_MAX - 1),),
    ):
        with pytest.raises(ValueError, match="figure"):
            require_figures(figures)
