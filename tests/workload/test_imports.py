import json
import subprocess
import sys
from pathlib import Path

CHECK = """
import sys
import p2pd, p2pd.io.worker, p2pd.workload.protocol, p2pd.workload.source, p2pd.workload.serve
import p2pd.workload.alone
assert "torch" not in sys.modules
assert p2pd.Workload.__name__ == "Workload"
assert "torch" not in sys.modules
"""


def test_i12_the_daemons_side_imports_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_name_of_the_package_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from p2pd import Trainer"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "cannot import name 'Trainer'" in done.stderr


def test_alone_prints_json_only_whatever_the_users_code_prints(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "from p2pd.workloads import digits\n\ndef build(config):\n"
        "    print('building')\n    return digits.build(config)\n"
    )
    command = [sys.executable, "-m", "p2pd.workload.alone", "chatty", "--path", str(tmp_path)]
    command += ["--samples", "16", "--every", "16", "--config", '{"hidden": 4}']
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [next(iter(line)) for line in said] == ["point", "point", "result"]
    assert said[-1]["result"]["train_samples"] == 1437
    assert "building" in done.stderr
