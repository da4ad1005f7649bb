"""A network's birth record: from what a person wrote to a signed genesis, and back into words."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nacl.bindings import crypto_core_ed25519_is_valid_point

from p2pd.cli.inputs import read_signer
from p2pd.config.loading import Override, load
from p2pd.config.names import parse_public_key
from p2pd.core.genesis import Genesis, Seat, SignedGenesis
from p2pd.core.ids import PublicKey, peer_id, short
from p2pd.core.voting.thresholds import Survival, Thresholds, survival
from p2pd.core.wording import counted
from p2pd.errors import UsageError
from p2pd.wire.records import seal_genesis

NONCE_BYTES = 16

WEIGHT_DIGITS = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Founding:
    """The table [network], and the options of `p2pd network create`."""

    name: str
    """What people call the network; 1 to 64 characters."""
    authority: tuple[Path, ...]
    """Key files, or data directories with a key, of the authority: they sign now."""
    authority_keys: tuple[str, ...] = ()
    """Public keys, in hex, of more of the authority: named, without signing now."""
    threshold: int | None = None
    """Authority keys that a governance record needs; by default the fewest that are over half."""
    validators: tuple[str, ...]
    """Public keys in hex, each with :WEIGHT if that is not 1."""
    quorum: int | None = None
    """Weight that decides; by default the least that is over two thirds."""
    admission: str = "open"
    """Who may train or reduce; open is the only policy."""


def read_founding(path: Path | None, options: Mapping[tuple[str, str], object]) -> Founding:
    """Settings of a file, of options (flag and key) that are not None, or of both; options win.

    Raises:
        UsageError: one line for each thing that is wrong.
    """
    overrides = [
        Override(flag, "network", key, value)
        for (flag, key), value in options.items()
        if value is not None
    ]
    founding: Founding = load(path, {"network": Founding}, overrides)["network"]
    return founding


def found(founding: Founding) -> SignedGenesis:
    """
    Raises:
        UsageError: no network can be made of that; the message names the key.
        StoreError: an authority's key cannot be read.
    """
    signers = tuple(read_signer(path) for path in founding.authority)
    named = tuple(_sound_key(text) for text in founding.authority_keys)
    keys = (*(signer.key for signer in signers), *named)
    seats = tuple(_seat(text) for text in founding.validators)
    weight = sum(seat.weight for seat in seats)
    try:
        genesis = Genesis(
            name=founding.name,
            nonce=secrets.token_bytes(NONCE_BYTES),
            authority=keys,
            threshold=len(keys) // 2 + 1 if founding.threshold is None else founding.threshold,
            validators=seats,
            quorum=weight * 2 // 3 + 1 if founding.quorum is None else founding.quorum,
            admission=founding.admission,
        )
    except ValueError as error:
        raise UsageError(f"network: {error}") from error
    if len(signers) < genesis.threshold:
        raise UsageError(
            f"network: authority: {counted(genesis.threshold, 'key')} must sign, {len(signers)} given: "
            "name more key files"
        )
    return seal_genesis(genesis, signers)


def _seat(text: str) -> Seat:
    key, separator, weight = text.partition(":")
    if separator and (not weight.isdecimal() or len(weight) > WEIGHT_DIGITS):
        raise UsageError(f"validator {text!r:.100}: the weight must be a whole number")
    return Seat(_sound_key(key), int(weight) if separator else 1)


def _sound_key(text: str) -> PublicKey:
    """A key that somebody may hold: with others, nobody or anybody could sign."""
    key = parse_public_key(text)
    if not crypto_core_ed25519_is_valid_point(key):
        raise UsageError(f"public key {text!r:.80} is no key that anybody holds: see p2pd id")
    return key


def describe(genesis: Genesis) -> list[str]:
    """The network in words, and what its quorum survives."""
    weights = [seat.weight for seat in genesis.validators]
    outlook = survival(weights, genesis.quorum)
    limits = Thresholds(sum(weights), genesis.quorum)
    return [
        f"network     {genesis.name}",
        f"id          {genesis.network.hex()}",
        f"authority   {genesis.threshold} of {counted(len(genesis.authority), 'key')} must sign",
        f"admission   {genesis.admission}: any key may train or reduce",
        f"validators  {len(weights)}, weight {limits.weight}, quorum {limits.quorum}",
        *(
            f"  {short(peer_id(seat.key))}  weight {seat.weight}  key {seat.key.hex()}"
            for seat in genesis.validators
        ),
        f"unreachable up to weight {limits.crashed_max}: "
        + _if_any(outlook.crashes, "may be away and the rest still decide", "one can halt it"),
        f"lying       up to weight {limits.lying_max}: "
        + _if_any(outlook.liars_safe, "may lie and there is still one lineage", "one can split it")
        + "; "
        + _if_any(outlook.liars_live, "may lie and heights still end", "one liar can halt it"),
        "            these allowances do not add up: a liar uses up the room for one that is away",
    ]


def warnings(genesis: Genesis) -> list[str]:
    """What whoever runs the network should know before it starts."""
    outlook = survival([seat.weight for seat in genesis.validators], genesis.quorum)
    lines = [*_alone(genesis, outlook)]
    if genesis.quorum == 1:
        lines.append("a quorum of 1 is for a lab: nobody checks what that one validator decides")
    return lines


def _alone(genesis: Genesis, outlook: Survival) -> list[str]:
    names = [short(peer_id(seat.key)) for seat in genesis.validators]
    # Whoever decides alone holds more than half of the weight: without it nothing is decided.
    deciding = [
        f"validator {names[n]} decides alone, and can halt the network" for n in outlook.deciding
    ]
    halting = [names[n] for n in outlook.halting if n not in outlook.deciding]
    if len(halting) == len(names):
        return ["every validator can halt the network alone: none may be away"]
    return [*deciding, *(f"validator {name} can halt the network alone" for name in halting)]


def _if_any(count: int, then: str, otherwise: str) -> str:
    return f"any {count} {then}" if count else otherwise


def as_json(genesis: Genesis) -> dict[str, object]:
    outlook = survival([seat.weight for seat in genesis.validators], genesis.quorum)
    return {
        "name": genesis.name,
        "network": genesis.network.hex(),
        "authority": [key.hex() for key in genesis.authority],
        "threshold": genesis.threshold,
        "validators": [
            {"peer": peer_id(seat.key).hex(), "key": seat.key.hex(), "weight": seat.weight}
            for seat in genesis.validators
        ],
        "quorum": genesis.quorum,
        "admission": genesis.admission,
        "survives": {
            "crashes": outlook.crashes,
            "liars_safe": outlook.liars_safe,
            "liars_live": outlook.liars_live,
        },
        "warnings": warnings(genesis),
    }
