"""Fails when a module or a function has outgrown its limit."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES, FUNCTION_LINES = 400, 60


def too_long(path: Path) -> Iterator[str]:
    source = path.read_text()
    if (lines := source.count("\n")) > MODULE_LINES:
        yield f"{path}: {lines} lines, the limit is {MODULE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, limit {FUNCTION_LINES}"


if __name__ == "__main__":
    files = (file for root in sys.argv[1:] for file in sorted(Path(root).rglob("*.py")))
    found = [line for file in files for line in too_long(file)]
    sys.exit("\n".join(found) or 0)
