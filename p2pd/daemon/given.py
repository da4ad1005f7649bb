"""What a node is told by files and packages of its machine, checked before anything is bound."""

from dataclasses import dataclass

from p2pd.core.genesis import SignedGenesis
from p2pd.core.revision import SignedRevision
from p2pd.daemon.files import read_genesis, read_revision
from p2pd.daemon.settings import NodeConfig
from p2pd.errors import UsageError
from p2pd.node.plugins import load_role
from p2pd.ports import RolePlugin


@dataclass(frozen=True, slots=True)
class Given:
    config: NodeConfig
    plugin: RolePlugin
    genesis: SignedGenesis
    revision: SignedRevision | None


def gather(config: NodeConfig) -> Given:
    """Raises UsageError."""
    plugin = load_role(config.node.role)
    genesis = read_genesis(config.network.genesis)
    revision = None
    if config.experiment.record is not None:
        revision = read_revision(config.experiment.record, genesis)
    elif plugin.needs_worker or plugin.needs_math:
        raise UsageError(f"experiment.record must name the revision that a {plugin.name} works on")
    return Given(config, plugin, genesis, revision)
