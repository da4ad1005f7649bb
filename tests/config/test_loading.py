from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.config.loading import Override, load
from p2pd.config.render import describe, show
from p2pd.config.schema import kind_of
from p2pd.errors import LocalError, ProblemsError, UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    label: str
    """What it is called."""
    weight: float = 1.0
    """In kilograms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    name: str
    """What people
    call it."""
    count: int = 3
    """How many."""
    speed: float = 0.5
    loud: bool = False
    tags: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    home: Path | None = None
    limit: int | None = None
    power: str | int | tuple[str, ...] = "wind"

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count must not be negative, got {self.count}")
        if self.speed > 9 and self.loud:
            raise ValueError("too fast to be loud")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    street: str = ""
    number: int = 1

    def __post_init__(self) -> None:
        if self.number == 13:
            raise ValueError("place.number must not be 13")


TABLES = {"machine": Machine, "place": Place, "spares": tuple[Part, ...]}


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "file.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(tmp_path: Path, text: str | bytes, *overrides: Override) -> list[str]:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load(path, TABLES, overrides)
    return str(caught.value).replace(str(tmp_path), "DIR").splitlines()


def test_a_file_becomes_dataclasses(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [machine]
        name = "mill"
        count = 5
        speed = 2
        loud = true
        tags = ["a", "b"]
        home = "../home"
        limit = 7
        power = ["wind", "water"]
        parts = [{label = "wheel"}, {label = "axle", weight = 2.5}]
        [[spares]]
        label = "belt"
        """,
    )
    assert load(path, TABLES) == {
        "machine": Machine(
            name="mill",
            count=5,
            speed=2.0,
            loud=True,
            tags=("a", "b"),
            parts=(Part(label="wheel"), Part(label="axle", weight=2.5)),
            home=(tmp_path / "../home").resolve(),
            limit=7,
            power=("wind", "water"),
        ),
        "place": Place(),
        "spares": (Part(label="belt"),),
    }


def test_everything_that_is_wrong_is_said_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
[machine]
nam = "mill"
count = "3"
speed = true
loud = 1
tags = ["a", 2]
number = 7

[place]
street = 1.5

[plaice]

[[spares]]
label = "belt"
[[spares]]
wait = 3
"""
    assert problems(tmp_path, text) == [
        "DIR/file.toml:1: machine.name: this key is required and missing",
        "DIR/file.toml:2: machine.nam: unknown key; did you mean name?",
        "DIR/file.toml:3: machine.count: must be a whole number, got the text '3'",
        "DIR/file.toml:4: machine.speed: must be a number, got true",
        "DIR/file.toml:5: machine.loud: must be true or false, got 1",
        "DIR/file.toml:6: machine.tags[1]: must be text, got 2",
        "DIR/file.toml:7: machine.number: this key belongs in [place]",
        "DIR/file.toml:10: place.street: must be text, got 1.5",
        "DIR/file.toml:12: plaice: unknown table; did you mean place?",
        "DIR/file.toml:16: spares[1].label: this key is required and missing",
        "DIR/file.toml:17: spares[1].wait: unknown key; did you mean weight?",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("machine = 3", ":1: machine: must be a table, got 3"),
        ("spares = 3", ":1: spares: must be a list, each item a table, got 3"),
        ("[spares]", ":1: spares: must be a list, each item a table, got a table"),
        ("[[machine]]", ":1: machine: must be a table, got a list"),
        ("street = 1", ":1: street: this key belongs in [place]"),
        ("label = 1", ":1: label: this key belongs in [spares]"),
        ("stret = 1", ":1: stret: unknown key, and outside of any table; did you mean street?"),
        ("[zebra]", ":1: zebra: unknown table; known are machine, place, spares"),
        ("[zebra.x]\ny = 1", ":1: zebra: unknown table; known are machine, place, spares"),
        ("[place]\nqqq = 1", ":2: place.qqq: unknown key; known are street, number"),
        ("[place]\nnumber = 13", ":2: place.number: must not be 13"),
        ("[place]\nnumber = 1.0", ":2: place.number: must be a whole number, got 1.0"),
        ("[place]\nnumber = true", ":2: place.number: must be a whole number, got true"),
        ("[place]\nnumber = [1]", ":2: place.number: must be a whole number, got a list"),
        (
            "[place]\nnumber = 2020-01-01",
            ":2: place.number: must be a whole number, got 2020-01-01",
        ),
        ("place.number = 13", ":1: place.number: must not be 13"),
        ("place = {number = 13}", ":1: place.number: must not be 13"),
        ("[place.street]\nx = 1", ":1: place.street: must be text, got a table"),
    ],
)
def test_a_wrong_table_or_key_is_told(tmp_path: Path, text: str, said: str) -> None:
    machine = Override("--name", "machine", "name", "mill")
    overrides = () if "machine" in text else (machine,)
    assert problems(tmp_path, text, *overrides) == [f"DIR/file.toml{said}"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("count = -1", ":3: machine.count: must not be negative, got -1"),
        ("speed = 10\nloud = true", ":1: machine: too fast to be loud"),
        ("speed = nan", ":3: machine.speed: must be a number, got nan"),
        (
            "speed = 1e308",
            ":3: machine.speed: this number is too large: 1000000000000000 is the most",
        ),
        (
            f"speed = 1{'0' * 400}",
            ":3: machine.speed: this number is too large: 1000000000000000 is the most",
        ),
        ("speed = 1e30", ":3: machine.speed: 1e+30 is too large: 1000000000000000 is the most"),
        ("speed = -inf", ":3: machine.speed: must be a number, got -inf"),
        ('home = ""', ":3: machine.home: must be a path, got the text ''"),
        ("home = 3", ":3: machine.home: must be a path, got 3"),
        ("parts = [\n{label = 1}]", ":4: machine.parts[0].label: must be text, got 1"),
        ("parts = [3]", ":3: machine.parts[0]: must be a table, got 3"),
        ("tags = {}", ":3: machine.tags: must be a list, each item text, got a table"),
        (
            "power = 0.5",
            ":3: machine.power: must be text or a whole number or a list, each item text, got 0.5",
        ),
        ("power = [1]", ":3: machine.power[0]: must be text, got 1"),
        ("street = 1", ":3: machine.street: this key belongs in [place]"),
        ("nunber = 1", ":3: machine.nunber: unknown key; did you mean place.number?"),
    ],
)
def test_a_wrong_value_is_told(tmp_path: Path, line: str, said: str) -> None:
    text = f'[machine]\nname = "mill"\n{line}\n'
    assert problems(tmp_path, text) == [f"DIR/file.toml{said}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[machine]\nname = ", ":2: not TOML: Invalid value"),
        ("[machine]\nname = 'a'\nname = 'b'\n", ":3: not TOML: Cannot overwrite a value"),
        ("[machine]\n[machine]\n", ":2: not TOML: Cannot declare ('machine',) twice"),
        ("[machine\n", ":1: not TOML: Expected ']' at the end of a table declaration"),
        ("a = [1,\n2", ":2: not TOML: Unclosed array"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    advice = "correct the line, or name another file"
    assert problems(tmp_path, text) == [f"DIR/file.toml{said}: {advice}"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[machine]\nname = '\xff'\n", ":2: not UTF-8: save the file as UTF-8"),
        (b"HOME=/\0PATH=/\0", ": not a file of text: name a configuration file, TOML"),
        (b"\x7fELF\0\xff", ": not a file of text: name a configuration file, TOML"),
        (b"#" * 2**21, ": larger than 1048576 bytes: is it another file?"),
    ],
)
def test_what_is_no_text_is_told_and_what_to_do(tmp_path: Path, content: bytes, said: str) -> None:
    assert problems(tmp_path, content) == [f"DIR/file.toml{said}"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="of Linux")
@pytest.mark.parametrize("name", ["environ", "stat", "mem", "pagemap"])
def test_what_only_looks_like_a_file_is_not_waited_for(name: str) -> None:
    with pytest.raises(UsageError, match=rf"/proc/self/{name}.*: \S"):
        load(Path("/proc/self") / name, TABLES)


def test_several_problems_are_apart_whatever_stands_in_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    path = tmp_path / "a\nb" / "file.toml"
    path.write_text("[machine]\ncount = 'x'\nspeed = 'y'\n")
    with pytest.raises(ProblemsError) as refused:
        load(path, TABLES)
    assert len(refused.value.lines) == 3
    assert all("a\nb" in line for line in refused.value.lines)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: there is no such configuration file"):
        load(tmp_path / "nowhere", TABLES)
    with pytest.raises(UsageError, match=f"{tmp_path}: is a directory"):
        load(tmp_path, TABLES)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be read: a part of the path is a file"):
        load(tmp_path / "file" / "file.toml", TABLES)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "\ufeff"])
def test_an_empty_file_means_the_defaults(tmp_path: Path, text: str) -> None:
    assert load(written(tmp_path, text), {"place": Place}) == {"place": Place()}
    assert problems(tmp_path, text) == [
        "DIR/file.toml: machine.name: this key is required and missing"
    ]


def test_windows_line_ends_and_a_byte_order_mark_are_taken(tmp_path: Path) -> None:
    text = "\ufeff[place]\r\nstreet = 'High'\r\nnumbr = 3\r\n"
    machine = Override("--name", "machine", "name", "mill")
    assert problems(tmp_path, text, machine) == [
        "DIR/file.toml:3: place.numbr: unknown key; did you mean number?"
    ]


def test_the_command_line_wins_and_its_errors_name_the_flag(tmp_path: Path) -> None:
    text = "[machine]\nname = 'mill'\ncount = 'wrong, but never looked at'\n"
    path = written(tmp_path, text)
    good = load(path, TABLES, [Override("--count", "machine", "count", 4)])
    assert good["machine"].count == 4
    assert problems(
        tmp_path,
        text,
        Override("--count", "machine", "count", -1),
        Override("--tag", "machine", "tags", ("a", 3)),
    ) == ["--tag: machine.tags[1]: must be text, got 3"]
    assert problems(tmp_path, text, Override("--count", "machine", "count", -1)) == [
        "--count: machine.count: must not be negative, got -1"
    ]
    assert problems(tmp_path, "machine = 1", Override("--count", "machine", "count", 1)) == [
        "DIR/file.toml:1: machine: must be a table, got 1"
    ]


def test_a_path_is_relative_to_where_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    path = written(tmp_path, "[machine]\nname = 'mill'\nhome = 'data'\n")
    monkeypatch.chdir(tmp_path / "work")
    assert load(path, TABLES)["machine"].home == tmp_path / "data"
    assert load(Path("../file.toml"), TABLES)["machine"].home == tmp_path / "data"
    flag = Override("--home", "machine", "home", Path("data"))
    assert load(path, TABLES, [flag])["machine"].home == tmp_path / "work" / "data"


def test_without_a_file_the_command_line_must_say_what_is_required() -> None:
    assert load(None, TABLES, [Override("--name", "machine", "name", "mill")])["machine"] == (
        Machine(name="mill")
    )
    with pytest.raises(UsageError, match=r"^command line: machine\.name: this key is required"):
        load(None, TABLES)


def test_a_flag_without_a_key_is_a_bug() -> None:
    with pytest.raises(LocalError, match=r"--x sets no key: machine\.x"):
        load(None, TABLES, [Override("--x", "machine", "x", 1)])


@pytest.mark.parametrize("hint", [bytes, dict[str, int], tuple[int, int], int | bytes, list[str]])
def test_a_setting_of_a_type_that_cannot_be_loaded_is_a_bug(hint: object) -> None:
    with pytest.raises(LocalError, match="cannot be loaded"):
        kind_of(hint)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PARTS = st.builds(Part, label=TEXT, weight=st.floats(-1e15, 1e15))
MACHINES = st.builds(
    Machine,
    name=TEXT,
    count=st.integers(0, 2**62 - 1),
    speed=st.floats(-1e15, 9),
    loud=st.booleans(),
    tags=st.lists(TEXT).map(tuple),
    parts=st.lists(PARTS, max_size=3).map(tuple),
    home=st.none() | st.just(Path("/somewhere/else")),
    limit=st.none() | st.integers(-(2**62) + 1, 2**62 - 1),
    power=TEXT | st.integers(-(2**62) + 1, 2**62 - 1) | st.lists(TEXT).map(tuple),
)


@given(machine=MACHINES, spares=st.lists(PARTS, max_size=3).map(tuple))
def test_what_is_shown_loads_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, machine: Machine, spares: tuple[Part, ...]
) -> None:
    settings = {"machine": machine, "place": Place(), "spares": spares}
    path = tmp_path_factory.mktemp("config") / "file.toml"
    path.write_text(show(settings), encoding="utf-8", newline="")
    assert load(path, TABLES) == settings


def test_the_description_explains_each_key_and_changes_nothing(tmp_path: Path) -> None:
    text = describe(TABLES)
    assert (
        """\
[machine]
# What people call it.
# (text, required)
#name = ""

# How many.
# (a whole number)
#count = 3
"""
        in text
    )
    assert '#[[spares]]\n# What it is called.\n# (text, required)\n#label = ""\n' in text
    machine = Override("--name", "machine", "name", "mill")
    assert load(written(tmp_path, text), TABLES, [machine]) == load(None, TABLES, [machine])
