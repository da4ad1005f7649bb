from collections.abc import Iterator
from pathlib import Path

import pytest

from p2pd.errors import RemoteError, UnreachableError
from p2pd.io.http_files import _redirected, below, open_url
from tests.io.web import Web, serving

DATA = bytes(range(256)) * 10


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    (tmp_path / "file").write_bytes(DATA)
    with serving(tmp_path) as running:
        yield running


def read(web: Web, how: str, start: int = 0, size: int | None = len(DATA)) -> bytes:
    stream = open_url(f"{web.url}/{how}/file", size, start, 5.0)
    try:
        return stream.read(10**6)
    finally:
        stream.close()


@pytest.mark.parametrize("how", ["good", "flat", "moved"])
@pytest.mark.parametrize("start", [0, 1000, len(DATA) - 1])
def test_a_file_comes_from_any_byte_on_with_ranges_or_without(
    web: Web, how: str, start: int
) -> None:
    assert read(web, how, start) == DATA[start:]
    assert read(web, how, start, None) == DATA[start:]


def test_with_ranges_only_what_is_asked_for_is_sent(web: Web) -> None:
    read(web, "good", 1000)
    assert web.asked == {"/good/file 1000": 1}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("circle", "redirects more than 5 times"),
        ("away", "which is no URL"),
        ("garbage", "garbage/file"),
    ],
)
def test_what_does_not_come_is_unreachable_in_one_line(web: Web, how: str, why: str) -> None:
    with pytest.raises(UnreachableError, match=why) as raised:
        read(web, how, 3)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("how", "size", "why"),
    [
        ("good", 5, "has 2560 bytes, the data set names 5"),
        ("flat", 2**40, "has 2560 bytes, the data set names 1099511627776"),
        ("long", len(DATA), "has 2565 bytes, the data set names 2560"),
        ("odd", len(DATA), "begins at byte 4, asked for 3"),
    ],
)
def test_i08_another_size_or_place_is_refused_before_anything_is_read(
    web: Web, how: str, size: int, why: str
) -> None:
    with pytest.raises(RemoteError, match=why):
        read(web, how, 3, size)


def test_a_file_that_is_not_there_and_a_server_that_is_not_there_are_said(web: Web) -> None:
    with pytest.raises(UnreachableError, match="answers 404"):
        open_url(f"{web.url}/good/missing", None, 0, 5.0)
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:1/x"):
        open_url("http://127.0.0.1:1/x", None, 0, 5.0)


def test_a_server_that_says_nothing_is_given_up(web: Web) -> None:
    with pytest.raises(UnreachableError, match="timed out"):
        open_url(f"{web.url}/hanging/file", None, 0, 0.2)


def test_a_redirect_never_leads_from_an_encrypted_connection_to_an_open_one() -> None:
    with pytest.raises(UnreachableError, match="not encrypted"):
        _redirected("https://a/b", "http://a/b")
    assert _redirected("https://a/b", "/c") == "https://a/c"


def test_a_query_stays_behind_the_name_of_the_file() -> None:
    assert below("https://h/dir/?token=x#there", "file") == "https://h/dir/file?token=x"
