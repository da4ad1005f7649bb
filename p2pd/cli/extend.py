"""An extension of a run: made by what a node's ledger says, signed by one authority key after another, handed over."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from p2pd.cli.inputs import read_input
from p2pd.cli.lineage import record_at
from p2pd.cli.reading import Chain
from p2pd.core.canary import reaches
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.governance import (
    ActionKind,
    Extend,
    GovernanceRecord,
    Governed,
    SignedGovernance,
)
from p2pd.core.revision import Revision
from p2pd.core.wording import counted
from p2pd.core.work import LOSS_MAX, MILLION
from p2pd.errors import RemoteError, StoreError, UsageError
from p2pd.io.control import ask
from p2pd.io.durable import write_durably
from p2pd.io.keys import Ed25519Signer
from p2pd.wire.records import load_governance, seal_governance

ASK_S = 20.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says of the new ends; None: as it is."""

    end_heads: int | None
    end_epochs: int | None
    target: float | None = None
    """Of the metric."""

    @property
    def goal(self) -> int | None:
        """In millionths. Raises UsageError: it is no number that a metric can be."""
        if self.target is None:
            return None
        if not abs(self.target) * MILLION <= LOSS_MAX:
            raise UsageError(f"--target {self.target:g}: name a number that a metric can be")
        return round(self.target * MILLION)


def make_extension(chain: Chain, wish: Wish) -> GovernanceRecord:
    """The next record of the log as that node has it.

    Raises:
        UsageError: no end is given, or one that is not later than the one in force.
    """
    governed = record_at(chain, chain.last_height()).decision.state.governed
    _check_later(governed, wish)
    _check_target(chain.setting.revision, governed, wish.goal)
    place = max(chain.log_place(), governed.log, key=lambda place: place.number)
    try:
        action = Extend(chain.setting.revision.id, wish.end_heads, wish.end_epochs, wish.goal)
    except ValueError as error:
        raise UsageError(f"{error}: name --end-heads, --end-epochs or --target") from error
    network = chain.setting.genesis.network
    return GovernanceRecord(network, place.number + 1, place.record, ActionKind.EXTEND, action)


def _check_later(governed: Governed, wish: Wish) -> None:
    ends = governed.ends
    for flag, now, given in (
        ("--end-heads", ends.heads, wish.end_heads),
        ("--end-epochs", ends.epochs, wish.end_epochs),
    ):
        if given is None:
            continue
        if now == 0:
            raise UsageError(f"{flag} {given}: this run has no such end: leave it out")
        if 0 < given <= now:
            raise UsageError(
                f"{flag} {given}: the end in force is {now}: name a later one, or 0 for never"
            )


def _check_target(revision: Revision, governed: Governed, target: int | None) -> None:
    now, higher = governed.ends.target, revision.workload.higher_is_better
    if target is None:
        if governed.reached:
            raise UsageError("the target is reached, and ends this run: name another --target")
        return
    if now is None:
        raise UsageError("--target: this run has no target: leave it out")
    if reaches(now, target, higher_is_better=higher) >= 0:
        raise UsageError(
            f"--target: the target in force is {now / MILLION:g}: name one that is harder to reach"
        )


def read_extension(path: Path, genesis: Genesis) -> SignedGovernance:
    """As an earlier command wrote it; it may lack endorsements. Raises StoreError."""
    try:
        return load_governance(read_input(path), genesis.network)
    except RemoteError as error:
        raise StoreError(f"{path}: not a governance record ({error}): make it anew") from error


def endorse(
    genesis: Genesis, record: GovernanceRecord | SignedGovernance, signers: Sequence[Ed25519Signer]
) -> SignedGovernance:
    """Raises UsageError: a key is not the authority's."""
    for signer in signers:
        if signer.key not in genesis.authority:
            raise UsageError(f"key {signer.key.hex()}: not of this network's authority")
    if isinstance(record, SignedGovernance):
        return seal_governance(record.record, tuple(signers), record.endorsements)
    return seal_governance(record, tuple(signers))


def lacking(genesis: Genesis, signed: SignedGovernance) -> int:
    """How many endorsements it lacks."""
    return max(0, genesis.threshold - len(signed.endorsements))


def write_extension(path: Path, signed: SignedGovernance) -> None:
    write_durably(path, encode(signed))


def hand_over(data_dir: Path, genesis: Genesis, signed: SignedGovernance) -> None:
    """To the running node of a data directory.

    Raises:
        UsageError: endorsements are missing.
        NotRunningError: no node runs there.
        P2pError: the node refused it; the message is its own.
    """
    if missing := lacking(genesis, signed):
        raise UsageError(
            f"it lacks {counted(missing, 'signature')} of the authority: write it by --out, "
            "and let others sign it by --from"
        )
    ask(data_dir, {"call": "governance", "record": encode(signed).hex()}, ASK_S)


def extension_json(signed: SignedGovernance, out: Path | None) -> dict[str, object]:
    record = signed.record
    return {
        "number": record.number,
        "record": record.id.hex(),
        "revision": record.action.revision.hex(),
        "end_heads": record.action.end_heads,
        "end_epochs": record.action.end_epochs,
        "target": None if record.action.target is None else record.action.target / MILLION,
        "endorsements": [one.key.hex() for one in signed.endorsements],
        "handed_over": out is None,
        "file": None if out is None else str(out),
    }


def extension_lines(genesis: Genesis, signed: SignedGovernance, out: Path | None) -> list[str]:
    record, action = signed.record, signed.record.action
    ends = [
        f"{counted(end, what) if end else f'never by {what}s'}"
        for end, what in ((action.end_heads, "head"), (action.end_epochs, "epoch"))
        if end is not None
    ]
    if action.target is not None:
        ends.append(f"with a metric of {action.target / MILLION:g}")
    lines = [
        f"extension  number {record.number} of the governance log, {record.id.hex()}",
        f"revision   {action.revision.hex()}",
        f"ends       {', '.join(ends)}",
        f"signed by  {counted(len(signed.endorsements), 'key')} of {genesis.threshold} that must",
    ]
    if out is not None:
        return [*lines, f"written    {out}: hand it over by --from {out} --data-dir DIR"]
    return [*lines, "handed over: it acts from the next decision that includes it"]
