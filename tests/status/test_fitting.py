from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from p2pd.status.fitting import FirstThatFits, table


def drawn(choice: FirstThatFits, columns: int) -> str:
    console = Console(width=columns, file=StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(choice)
    return captured.get().rstrip()


@pytest.mark.parametrize(
    ("columns", "shown"), [(20, "aaaa bbbb cc"), (12, "aaaa bbbb cc"), (11, "aaaa bbbb"), (8, "a")]
)
def test_the_fullest_that_fits_is_drawn_and_the_barest_where_none_does(
    columns: int, shown: str
) -> None:
    rows = [table([[Text(word) for word in words.split()]], right=()) for words in FULL_TO_BARE]
    assert " ".join(drawn(FirstThatFits(rows), columns).split()) == shown


FULL_TO_BARE = ("aaaa bbbb cc", "aaaa bbbb", "a")


def test_cells_are_aligned() -> None:
    rows = [[Text("a"), Text("1")], [Text("bb"), Text("22")]]
    assert drawn(FirstThatFits([table(rows, right=(1,), expand=False)]), 20).splitlines() == [
        "a   1",
        "bb 22",
    ]
