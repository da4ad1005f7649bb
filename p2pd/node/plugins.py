"""Roles by name: plugins that any installed package may bring, under the entry point group p2pd.roles."""

from importlib.metadata import entry_points

from p2pd.errors import UsageError
from p2pd.ports import RolePlugin

GROUP = "p2pd.roles"


def role_names() -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in entry_points(group=GROUP)))


def load_role(name: str) -> RolePlugin:
    """Raises UsageError: no installed package brings this role."""
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            plugin: RolePlugin = entry.load()()
            return plugin
    known = ", ".join(role_names())
    raise UsageError(f"role {name!r} is not installed; known roles: {known}")
