"""A reducer that signs a merge of other bits than its own, as a package that an operator installs."""

from pathlib import Path

CODE = """
from p2pd.core.reducer import with_other_head
from roles.reducer import ReducerRole


class Liar(ReducerRole):
    def __init__(self, services):
        super().__init__(services)
        self._machine.bend = with_other_head


class LiarPlugin:
    name = "liar"
    needs_worker = False
    needs_math = True
    offers = ("reducer",)

    def at(self, services):
        return Liar(services)
"""


def install_liar(directory: Path) -> dict[str, str]:
    """The environment in which p2pd finds the role `liar`."""
    information = directory / "liar-1.0.dist-info"
    information.mkdir(parents=True)
    (directory / "liar_role.py").write_text(CODE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: liar\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[p2pd.roles]\nliar = liar_role:LiarPlugin\n")
    return {"PYTHONPATH": str(directory)}
