import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.config.lines import Place, find_lines

TEXT = '''\
# a comment with [brackets] and = signs
top = 1
"quoted key".x.\'y z\' = 2  # dotted
[a]
one = "a # not a comment"
two = """
[not.a.table]
three = \\"""
""""
four = \'\'\'
five = 5\'\'\'
list = [ # comment ]
  1,
  [2, "]"],

  3,
]
inline = { x = 1, y.z = [ { w = 2 },
  { v = 3 } ] }
[a.b.c]
six = 2020-01-01T00:00:00Z
[[nodes]]
name = "n0"
[nodes.sub]
x = 1
[[nodes]]

name = \'n1\'
[[nodes.inner]]
y = 1
[[nodes.inner]]
y = 2
'''

WANTED: dict[Place, int] = {
    ("top",): 2,
    ("quoted key", "x", "y z"): 3,
    ("a",): 4,
    ("a", "one"): 5,
    ("a", "two"): 6,
    ("a", "four"): 10,
    ("a", "list"): 12,
    ("a", "list", 0): 13,
    ("a", "list", 1): 14,
    ("a", "list", 1, 1): 14,
    ("a", "list", 2): 16,
    ("a", "inline", "x"): 18,
    ("a", "inline", "y", "z", 0, "w"): 18,
    ("a", "inline", "y", "z", 1): 19,
    ("a", "inline", "y", "z", 1, "v"): 19,
    ("a", "b", "c"): 20,
    ("a", "b", "c", "six"): 21,
    ("nodes",): 22,
    ("nodes", 0): 22,
    ("nodes", 0, "name"): 23,
    ("nodes", 0, "sub", "x"): 25,
    ("nodes", 1): 26,
    ("nodes", 1, "name"): 28,
    ("nodes", 1, "inner", 0, "y"): 30,
    ("nodes", 1, "inner", 1): 31,
    ("nodes", 1, "inner", 1, "y"): 32,
}


def places(value: object, place: Place = ()) -> set[Place]:
    """Of all that tomllib found."""
    found = {place} if place else set()
    if isinstance(value, dict):
        return found.union(*(places(item, (*place, key)) for key, item in value.items()))
    if isinstance(value, list):
        return found.union(*(places(item, (*place, index)) for index, item in enumerate(value)))
    return found


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("\n", "\r\n")])
def test_each_key_is_found_on_its_line(text: str) -> None:
    lines = find_lines(text)
    assert {place: lines.get(place) for place in WANTED} == WANTED
    assert places(tomllib.loads(text)) == set(lines)


SNIPPETS = [
    "[t]",
    "[[t]]",
    "[[u.v]]",
    "[u]",
    "k = 1",
    "k.l = 'x'",
    '"a.b" = """q"""""',
    "l = [1, [2]]",
    "l = []",
    "i = {}",
    'i = {a = 1, b = ["}"]}',
    "# [x]",
    "",
    "s = '''\n[z]\n'''",
    's = "\\""',
    "d = 1979-05-27",
    "f = -1e3",
]


@given(st.lists(st.sampled_from(SNIPPETS), max_size=8))
def test_it_finds_what_tomllib_finds(snippets: list[str]) -> None:
    text = "\n".join(snippets)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(find_lines(text)) == places(data)
