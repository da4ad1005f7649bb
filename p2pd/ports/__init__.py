"""Protocols: all that a role or a node sees of the world, and of each other."""

from p2pd.ports.outside import (
    BlobStore,
    Ledger,
    Link,
    LinkHandler,
    Math,
    Signer,
    Table,
    Transport,
    Worker,
    Write,
)
from p2pd.ports.role import Role, RolePlugin, RoleView, Services

__all__ = [
    "BlobStore",
    "Ledger",
    "Link",
    "LinkHandler",
    "Math",
    "Role",
    "RolePlugin",
    "RoleView",
    "Services",
    "Signer",
    "Table",
    "Transport",
    "Worker",
    "Write",
]
