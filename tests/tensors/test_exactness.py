"""The bits do not depend on the machine: by source, by golden results, by instruction set."""

import ast
import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import p2pd.tensors
from p2pd.core.artifact import ArtifactKind
from p2pd.errors import LocalError
from p2pd.tensors import golden

PACKAGE = Path(p2pd.tensors.__path__[0])
MERGE_MODULES = (
    "blocks",
    "codecs",
    "cohort",
    "crew",
    "files",
    "formats",
    "merge",
    "outer",
    "rules",
)
FORBIDDEN = {
    "addcmul", "argpartition", "argsort", "average", "convolve", "cumsum", "dot", "einsum", "fma", "fsum",
    "inner", "jit", "lerp", "lexsort", "matmul", "mean", "median", "nansum", "norm", "numba", "outer_sum",
    "partition", "prod", "quantile", "reduce", "sort", "std", "sum", "sumprod", "tensordot", "trace", "var",
    "vdot", "vecdot",
}  # fmt: skip
ALLOWED_IN_FEATURES = {"dot", "matmul"}
RULE_STEPS = {
    "multiply",
    "add",
    "divide",
    "minimum",
    "maximum",
    "where",
    "empty_like",
    "zeros_like",
    "copyto",  # into float64, which holds every value of the narrower types
}


def used(source: str) -> set[str]:
    """Every name that is called or looked up, and `@` as matmul."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            names.add("matmul")
    return names


def numpy_names(source: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "np"
    }


@pytest.mark.parametrize("module", MERGE_MODULES)
def test_i06_merge_modules_use_nothing_that_is_not_bit_stable(module: str) -> None:
    assert used((PACKAGE / f"{module}.py").read_text()) & FORBIDDEN == set()


def test_i06_features_use_only_the_reductions_that_are_exact_for_integers() -> None:
    assert used((PACKAGE / "features.py").read_text()) & FORBIDDEN == ALLOWED_IN_FEATURES


def test_i06_rules_use_only_the_steps_that_are_listed() -> None:
    assert numpy_names((PACKAGE / "rules.py").read_text()) <= RULE_STEPS


def test_the_search_for_forbidden_names_finds_them() -> None:
    assert {"sum", "matmul", "numba"} <= used("import numba\nx.sum()\na @ b")


def test_tensors_need_numpy_and_nothing_else() -> None:
    allowed = {*sys.stdlib_module_names, "numpy"}
    lifeline = PACKAGE.parent / "lifeline.py"
    for path in (*PACKAGE.glob("*.py"), lifeline):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed
            elif isinstance(node, ast.ImportFrom):
                name = node.module or ""
                own = name.startswith(("p2pd.core", "p2pd.errors", "p2pd.lifeline", "p2pd.tensors"))
                assert own or name.split(".")[0] in allowed, f"{path.name} imports {name}"


def test_the_self_test_passes_here() -> None:
    golden.self_test()


def test_the_self_test_refuses_a_machine_that_computes_other_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = (replace(golden.GOLDEN[0], result="00" * 32), *golden.GOLDEN[1:])
    monkeypatch.setattr(golden, "GOLDEN", wrong)
    with pytest.raises(LocalError, match="must not vote"):
        golden.self_test()


@pytest.mark.parametrize("arrival", list(itertools.permutations(range(golden.UPDATES)))[::41])
def test_i06_golden_results_do_not_depend_on_arrival(
    tmp_path: Path, arrival: tuple[int, ...]
) -> None:
    assert golden.golden_results(tmp_path, arrival) == [entry.result for entry in golden.GOLDEN]


def test_golden_inputs_hold_both_zeros_denormals_and_the_largest_values(tmp_path: Path) -> None:
    for seed in range(golden.UPDATES + 1):
        golden.write_golden(tmp_path / str(seed), ArtifactKind.UPDATE, seed)
    raw = np.frombuffer((tmp_path / "1").read_bytes()[-4 * 317 * 211 :], "<f4")
    zeros = np.signbit(raw[raw == 0])
    assert zeros.any()
    assert not zeros.all()
    assert ((raw != 0) & (np.abs(raw) < 2.0**-126)).any()
    assert np.abs(raw).max() == np.float32(255 * 2.0**120)


CHILD = """
import sys, tempfile
from pathlib import Path
from numpy._core._multiarray_umath import __cpu_features__ as features
from p2pd.tensors.golden import GOLDEN, golden_results

still_there = [name for name in sys.argv[1:] if features[name]]
assert not still_there, f"numpy did not switch off {still_there}"
with tempfile.TemporaryDirectory() as directory:
    assert golden_results(Path(directory)) == [entry.result for entry in GOLDEN]
"""
FOUND: list[str] = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
"""Instruction sets beyond numpy's baseline that this machine has; only these can be switched off."""


def golden_in_a_child(threads: int, switched_off: list[str]) -> None:
    counts = {
        name: str(threads)
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    }
    environment = {**os.environ, **counts, "NPY_DISABLE_CPU_FEATURES": " ".join(switched_off)}
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, *switched_off],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert child.returncode == 0, child.stderr


@pytest.mark.parametrize("threads", [2, 3])
def test_i06_golden_results_do_not_depend_on_the_threads_that_merge(
    tmp_path: Path, threads: int
) -> None:
    expected = [entry.result for entry in golden.GOLDEN]
    assert golden.golden_results(tmp_path, threads=threads) == expected


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_i06_golden_results_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    golden_in_a_child(threads, [])


def test_this_machine_has_instruction_sets_that_can_be_switched_off() -> None:
    assert FOUND, "numpy found none beyond its baseline here: the next tests prove nothing"


@pytest.mark.parametrize(
    "switched_off", [FOUND[start:] for start in range(len(FOUND))], ids="-".join
)
def test_i06_golden_results_do_not_depend_on_the_instruction_set(switched_off: list[str]) -> None:
    golden_in_a_child(1, switched_off)
