import subprocess
import sys

CHECK = """
import sys
import p2pd, p2pd.io.worker, p2pd.workload.protocol, p2pd.workload.source, p2pd.workload.serve
import p2pd.workload.alone
assert "torch" not in sys.modules
assert "numpy" not in sys.modules  # whose threads the keeper of a worker must not fork
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
