import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from p2pd.status.snapshot import LeaseInfo, MeasuredInfo, RevisionInfo, Snapshot
from p2pd.status.view import view
from tests.status.samples import TRAINERS, busy, decisions, name, revision

WIDTHS = (80, 100, 140, 160)


def drawn(snapshot: Snapshot, columns: int = 100, rows: int = 8) -> str:
    console = Console(width=columns, file=StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(view(snapshot, columns, rows))
    return captured.get()


def with_revision(changed: RevisionInfo) -> Snapshot:
    return replace(busy(), revisions=(changed,))


@pytest.mark.parametrize("columns", WIDTHS)
def test_nothing_is_wider_than_the_screen(columns: int) -> None:
    assert max(map(cell_len, drawn(busy(), columns).splitlines())) <= columns


@pytest.mark.parametrize("columns", WIDTHS)
def test_what_matters_is_never_cut(columns: int) -> None:
    text = drawn(busy(), columns)
    for wanted in (
        "validator-2",
        "digits / small / r1",
        "height 15",
        "closes in 41 s",
        "◉ prevote",
        "2 of 4, quorum 3",
        "0 of 4, quorum 3",
        "✗ rejected",
        "blocked",
        "0.9300",
        "out to 44",
        "3.0 MB of 8.1 MB from 2",
        "this node  training 160 samples  17 s",
        "6 linked",
        "out of memory",
    ):
        assert wanted in text, wanted


@pytest.mark.parametrize("columns", range(80, 200, 7))
@pytest.mark.parametrize("height", [9, 99, 99_999])
def test_no_column_of_the_decisions_is_cut(columns: int, height: int) -> None:
    rows = tuple(
        replace(row, height=height + n, metric=1234.5 if row.metric else None)
        for n, row in enumerate(decisions()[:5])
    )
    text = drawn(with_revision(replace(revision(), decisions=rows)), columns)
    assert "…" not in text.partition(" heard")[0]
    lines = [line for line in text.splitlines() if " promoted " in line and "epoch" not in line]
    (header,) = (line for line in text.splitlines() if "outcome" in line)
    for word in ("height", "outcome", "cohort", "accuracy", "seconds"):
        assert word in header
    assert len(lines) == 5
    for line in lines:
        assert "1234.5" in line
        assert {len(line)} == {len(header)}
        assert line.index("promoted") == header.index("outcome")
        assert line.index("1234.5") + len("1234.5") == header.index("accuracy") + len("accuracy")


def test_where_a_lease_was_missed_the_cohort_says_so_and_the_wait_is_told_from_the_vote() -> None:
    text = drawn(busy(), 140)
    assert " 4 of 5 " in text
    assert " 42+120+0.6" in text
    assert " 1 missed" in text


def test_a_narrow_screen_shows_the_seconds_in_one_number() -> None:
    rows = tuple(replace(row, head="f" * 64, metric=-1.5) for row in decisions())
    wide = tuple(replace(row, height=10**12 + row.height) for row in rows)
    text = drawn(with_revision(replace(revision(), decisions=wide)), 100)
    assert "42+120+0.6" not in text
    assert " 162 " in text


def test_a_node_that_sees_no_updates_shows_how_long_a_height_took() -> None:
    rows = tuple(
        replace(row, train_s=None, overhead_s=None, vote_s=None, took_s=7.25) for row in decisions()
    )
    text = drawn(with_revision(replace(revision(), decisions=rows)), 80)
    assert text.count(" 7.2 ") == 8


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
def test_the_curve_has_its_scale_and_all_the_room_there_is(columns: int) -> None:
    metrics = [0.5 + n / 1000 for n in range(64)]
    rows = tuple(replace(decisions()[0], height=n + 1, metric=one) for n, one in enumerate(metrics))
    text = drawn(with_revision(replace(revision(), decisions=rows)), columns)
    (line,) = (line for line in text.splitlines() if "best" in line)
    before, levels, after = re.split("([▁▂▃▄▅▆▇█]+)", line)
    assert before.endswith(f" {metrics[-len(levels)]:.4f} ")
    assert after.startswith(" 0.5630   best 0.5630")
    assert len(levels) == min(
        64, columns - len("│ accuracy 0.5630   0.5000  0.5630   best 0.5630 │")
    )


def test_at_100_columns_a_whole_node_fits_on_30_lines() -> None:
    assert len(drawn(busy(), 100).splitlines()) <= 30


def test_newest_decisions_come_first_and_only_as_many_as_there_are_rows() -> None:
    text = drawn(busy(), 80, rows=3).partition("decisions")[2]
    assert text.index("14 blocked") < text.index("13 promoted") < text.index("12 promoted")
    assert "11 promoted" not in text


def test_what_there_is_no_row_for_is_counted() -> None:
    leases = tuple(LeaseInfo(peer=name(str(n)), samples=1, state="training") for n in range(30))
    assert "and 26 more" in drawn(with_revision(replace(revision(), leases=leases)), rows=4)


def test_an_idle_revision_says_what_it_waits_for() -> None:
    idle = replace(revision(), plan="idle", closes_in_s=None, voting=None, leases=())
    text = drawn(with_revision(idle))
    assert "idle: waiting for a trainer" in text
    assert "prevote" not in text


def test_on_what_this_nodes_workload_computes_is_said() -> None:
    assert "validator on 4 x cpu  of lab" in drawn(replace(busy(), devices="4 x cpu"))


def test_a_finished_revision_says_so_once_and_nothing_that_is_still_to_come() -> None:
    over = replace(revision(), plan="finished", closes_in_s=None, leases=())
    text = drawn(with_revision(over))
    assert text.count("come to its end") == 1
    for word in ("train  ", "propose  ", "this node", "height 15", "round"):
        assert word not in text


def test_before_the_first_head_the_genesis_is_called_by_its_name() -> None:
    assert "genesis: none promoted yet" in drawn(with_revision(replace(revision(), heads=0)))


def test_where_nobody_trains_no_step_is_lit() -> None:
    voting = revision().voting
    assert voting is not None
    still = replace(revision(), plan="idle", voting=replace(voting, step="idle"))
    text = drawn(with_revision(still))
    assert "○ train  ○ propose  ○ prevote  ○ precommit" in text
    assert "quorum" not in text


def test_the_last_measurement_stays_when_no_decision_shown_has_one() -> None:
    old = tuple(replace(row, metric=None) for row in revision().decisions)
    long_ago = MeasuredInfo(height=12, metric=0.9712)
    text = drawn(with_revision(replace(revision(), decisions=old, measured=long_ago)))
    assert "accuracy 0.9712 measured at height 12" in text
    assert "best" not in text


def test_before_the_first_measurement_there_is_no_line_for_it() -> None:
    new = tuple(replace(row, metric=None) for row in revision().decisions)
    unmeasured = replace(revision(), decisions=new, measured=None)
    assert "measured at" not in drawn(with_revision(unmeasured))


def test_a_window_that_only_messages_can_end_has_no_clock() -> None:
    assert "closes in" not in drawn(with_revision(replace(revision(), closes_in_s=None)))


def test_a_deadline_that_has_passed_is_shown_as_over() -> None:
    assert "closes in 0 s ██████████████" in drawn(
        with_revision(replace(revision(), closes_in_s=-5.0))
    )


def test_before_a_proposal_there_are_no_votes_to_show() -> None:
    voting = revision().voting
    assert voting is not None
    text = drawn(with_revision(replace(revision(), voting=replace(voting, step="idle"))))
    assert "◉ train" in text
    assert "quorum" not in text


def test_a_validator_that_does_not_vote_says_why() -> None:
    voting = revision().voting
    assert voting is not None
    odd = replace(voting, listening=True, muted=True)
    text = drawn(with_revision(replace(revision(), voting=odd)))
    assert "listening before the first vote" in text
    assert "this key voted elsewhere" in text


def test_for_a_metric_where_less_is_better_the_best_is_the_least() -> None:
    text = drawn(with_revision(replace(revision(), metric="loss", higher_is_better=False)))
    assert "best 0.6100" in text


def test_a_new_node_has_a_screen_too() -> None:
    text = drawn(Snapshot(node=replace(busy().node, name="", address="", degraded=())))
    assert busy().node.peer[:10] in text
    assert "no address" in text
    assert "nobody yet" in text
    assert "none is served here" in text
    assert "heard nothing yet" in text


def test_what_others_chose_is_never_read_as_markup() -> None:
    odd = replace(revision(), study="[red]x[/red]", head="[bold]" + "0" * 58)
    text = drawn(with_revision(odd))
    assert "[red]x[/red]" in text
    assert "[bold]" in text


def test_several_revisions_are_all_shown() -> None:
    second = replace(revision(), name="r2", height=3, revision=name("r2"))
    text = drawn(replace(busy(), revisions=(revision(), second)), 100)
    assert "height 15" in text
    assert "height 4" in text
    assert TRAINERS[0][:10] in text


def test_the_last_lines_of_the_workload_are_shown_and_never_wrapped() -> None:
    printed = tuple(f"step {number}: {'x' * 300}" for number in range(20))
    screen = drawn(replace(busy(), printed=printed), 100)
    assert "the workload prints" in screen
    assert "step 19: xxx" in screen
    assert sum("step 1" in line for line in screen.splitlines()) <= 8
    assert "the workload prints" not in drawn(busy(), 100)


def test_what_the_workload_is_at_is_shown_while_it_is_at_something() -> None:
    assert "workload   train, step 7 for 2 s" in drawn(
        replace(busy(), working="train, step 7 for 2 s"), 100
    )
    assert "workload   " not in drawn(busy(), 100)
