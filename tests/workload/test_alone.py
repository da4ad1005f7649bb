import json
import subprocess
import sys
from pathlib import Path

CHATTY = """
from p2pd.workloads import digits

def build(config):
    print("building")
    return digits.build(config)
"""


def run(directory: Path, config: str) -> subprocess.CompletedProcess[str]:
    (directory / "chatty.py").write_text(CHATTY)
    command = [sys.executable, "-m", "p2pd.workload.alone", "chatty", "--path", str(directory)]
    command += ["--samples", "16", "--every", "16", "--config", config]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_prints_json_only_whatever_the_users_code_prints(tmp_path: Path) -> None:
    done = run(tmp_path, '{"hidden": 4}')
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [next(iter(line)) for line in said] == ["point", "point", "result"]
    assert said[-1]["result"]["train_samples"] == 1437
    assert done.returncode == 0
    assert "building" in done.stderr


def test_a_failure_is_one_line_too(tmp_path: Path) -> None:
    done = run(tmp_path, '{"hiden": 4}')
    (said,) = (json.loads(line) for line in done.stdout.splitlines())
    assert said["error"].startswith("digits has no config key 'hiden': did you mean 'hidden'?")
    assert done.returncode == 1
