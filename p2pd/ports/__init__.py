"""Protocols: all that a role or a node sees of the world, and of each other."""

from p2pd.ports.outside import (
    BlobStore,
    DataSource,
    Ledger,
    Link,
    LinkHandler,
    Math,
    Reading,
    Signer,
    Table,
    Transport,
    Worker,
    Write,
)
from p2pd.ports.role import Role, RolePlugin, RoleView, Services

__all__ = [
    "BlobStore",
    "DataSource",
    "Ledger",
    "Link",
    "LinkHandler",
    "Math",
    "Reading",
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
