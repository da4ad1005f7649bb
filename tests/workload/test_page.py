"""The page that a worker and its daemon share, both sides in one process."""

import faulthandler
import os
from collections.abc import Iterator

import pytest

from p2pd.workload.page import FORM, TRACE_AT, Frame, Page, identity, look, new_page


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = new_page()
    enabled = faulthandler.is_enabled()
    yield made
    faulthandler.cancel_dump_traceback_later()
    if enabled:
        faulthandler.enable()
    os.close(made)


def test_steps_are_counted_from_the_beginning_of_each_call(descriptor: int) -> None:
    assert look(descriptor).steps == 0
    page = Page(descriptor)
    for steps in (3, 1):
        page.begin(0)
        for _ in range(steps):
            page.step()
        seen = look(descriptor)
        assert (seen.steps, seen.frames) == (steps, ())
        assert 0 <= seen.since_s < 60


def test_the_frames_are_those_of_the_thread_that_carries_out_the_call(descriptor: int) -> None:
    page = Page(descriptor)
    page.begin(0)
    faulthandler.dump_traceback(descriptor, all_threads=True)
    first, *_ = look(descriptor).frames
    assert (first.path, first.function) == (
        __file__,
        "test_the_frames_are_those_of_the_thread_that_carries_out_the_call",
    )
    page.begin(0)
    assert look(descriptor).frames == ()


def test_a_trace_through_a_data_loader_is_told_apart(descriptor: int) -> None:
    Page(descriptor).begin(0)
    text = (
        "Fatal Python error: Bus error\n\n"
        'Thread 0x1 (most recent call first):\n  File "/a.py", line 1 in other\n\n'
        'Current thread 0x2 (most recent call first):\n  File "/x/users.py", line 7 in get\n'
        '  File "/p/torch/utils/data/dataloader.py", line 9 in __next__\n'
    )
    os.pwrite(descriptor, text.encode(), TRACE_AT)
    seen = look(descriptor)
    assert seen.frames[0] == Frame("/x/users.py", 7, "get")
    assert len(seen.frames) == 2
    assert seen.doing == "waiting for the data loader"


@pytest.mark.parametrize("written", [b"\xff" * 200, b"x", b"\0" * 64 + b"Current thread 0x"])
def test_whatever_is_written_there_can_be_looked_at(descriptor: int, written: bytes) -> None:
    os.pwrite(descriptor, written, 0)
    assert look(descriptor).frames == ()


def test_nothing_is_written_to_a_file_that_was_opened_under_its_number(
    tmp_path: os.PathLike[str],
) -> None:
    descriptor = new_page()
    page = Page(descriptor)
    os.close(descriptor)
    taken = os.open(os.path.join(tmp_path, "users"), os.O_RDWR | os.O_CREAT)  # noqa: PTH118
    try:
        assert taken == descriptor
        page.begin(5)
        page.step()
        assert os.fstat(taken).st_size == 0
    finally:
        os.close(taken)
    assert identity(taken) is None


def test_a_line_number_of_any_length_is_looked_at() -> None:
    """Python makes no integer of more than 4300 digits; the user's code may write what it likes."""
    page = new_page()
    os.pwrite(page, FORM.pack(1, 1, 7).ljust(TRACE_AT, b"\0"), 0)
    trace = 'Current thread 0x7 (first):\n  File "/a.py", line ' + "9" * 5000 + " in f\n"
    os.pwrite(page, trace.encode(), TRACE_AT)
    assert look(page).frames == ()
    os.close(page)
