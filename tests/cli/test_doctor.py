import json
from dataclasses import replace
from pathlib import Path

from p2pd.cli.doctor import lines
from p2pd.daemon.capability import playable
from p2pd.daemon.doctor import Found, Running
from p2pd.machine import Room
from tests.cli.commands import p2pd
from tests.daemon.test_capability import FIT, GOOD


def test_the_doctor_says_what_a_machine_has_and_can_and_whether_a_workload_fits(
    tmp_path: Path,
) -> None:
    (tmp_path / "broken_one.py").write_text("import no_such_library\n")
    words = ["--data-dir", tmp_path, "--workload", "broken_one", "--workload-path", tmp_path]
    ran = p2pd("doctor", *words, "--json")
    assert ran.code == 0
    found = ran.json
    assert found["machine"]["torch"]["version"]
    assert found["running"] is None
    assert found["fit"] is None
    assert "ModuleNotFoundError" in found["fit_why"]
    can = {one["role"]: one["can"] for one in found["roles"]}
    assert (can["viewer"], can["trainer"]) == (True, False)
    assert json.dumps(found)


def test_what_belongs_to_a_workload_needs_one(tmp_path: Path) -> None:
    ran = p2pd("doctor", "--build", "lr=1", "--data-dir", tmp_path)
    assert ran.code == 2
    assert (
        ran.err
        == "p2pd: --build, --data and --workload-path belong to --workload: name the module\n"
    )


def test_every_part_is_a_line_for_people() -> None:
    running = Running("trainer", 60.0, 3, 2e6, 3e6, ("workload: no luck",))
    said = lines(Found(GOOD, running, FIT, "", playable(GOOD, FIT, "", numpy=True)))
    assert said[-1] == "can be a trainer"
    for words in (
        "memory      8.0 GB left of 16 GB",
        "disk        /data: 50 GB free of 100 GB, a megabyte is safe after 2.0 ms",
        "/dev/shm    1.0 GB free of 1.0 GB",
        "clock       kept right",
        "torch       2.13.0, 4 threads",
        "node        a trainer with 3 links; most it sent 2.0 MB/s, received 3.0 MB/s",
        "  !         workload: no luck",
        "workload    mine: 500 samples/s, about 30,000 in a minute",
        "  batch     32 samples; 592 fit into the memory that is left",
    ):
        assert words in said
    without = lines(Found(GOOD, None, None, "ValueError: no luck", ()))
    assert "workload    ValueError: no luck" in without


def test_what_is_worth_a_look_is_said() -> None:
    poor = replace(
        GOOD,
        shared=Room(64 * 2**20, 0),
        clock_kept=False,
        udp_buffer_bytes=2**17,
        torch=None,
        torch_why="torch is not installed",
    )
    said = "\n".join(lines(Found(poor, None, None, "", ())))
    for words in ("small for data loaders", "run chrony", "net.core.rmem_max", "torch is not inst"):
        assert words in said
