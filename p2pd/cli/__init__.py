"""The command line: each command parses, calls one function, and prints."""

from p2pd.cli.entry import main

__all__ = ["main"]
