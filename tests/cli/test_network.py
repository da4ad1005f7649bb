from pathlib import Path

import pytest

from p2pd.core.ids import peer_id, short
from p2pd.wire.records import load_genesis
from tests.cli.chains import key
from tests.cli.commands import Ran, p2pd

VALIDATORS = [key(f"v{n}") for n in range(4)]


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    p2pd("id", "--data-dir", tmp_path / "authority")
    return tmp_path / "authority"


def create(tmp_path: Path, authority: Path, weights: list[int], *more: object) -> Ran:
    seats = [
        word
        for signer, weight in zip(VALIDATORS, weights, strict=False)
        for word in ("--validator", f"{signer.key.hex()}:{weight}")
    ]
    return p2pd(
        *("network", "create", "--name", "lab", "--authority", authority),
        *("--out", tmp_path / "genesis.cbor", *seats, *more),
    )


def test_what_was_created_is_signed_and_shown_alike(tmp_path: Path, authority: Path) -> None:
    made = create(tmp_path, authority, [1, 1, 1, 1], "--json")
    assert made.code == 0
    shown = p2pd("network", "show", tmp_path / "genesis.cbor", "--json")
    assert shown.json == made.json
    genesis = load_genesis((tmp_path / "genesis.cbor").read_bytes()).genesis
    assert genesis.network.hex() == made.json["network"]
    assert (genesis.threshold, genesis.quorum) == (1, 3)


def test_two_networks_of_one_name_differ(tmp_path: Path, authority: Path) -> None:
    first = create(tmp_path, authority, [1], "--quorum", 1, "--json").json
    (tmp_path / "genesis.cbor").unlink()
    second = create(tmp_path, authority, [1], "--quorum", 1, "--json").json
    assert first["network"] != second["network"]


def test_what_the_quorum_survives_is_said_in_words(tmp_path: Path, authority: Path) -> None:
    out = create(tmp_path, authority, [1, 1, 1, 1]).out
    assert "unreachable up to weight 1: any 1 may be away and the rest still decide" in out
    assert (
        "lying       up to weight 1: any 1 may lie and there is still one lineage; "
        "any 1 may lie and heights still end"
    ) in out
    assert "do not add up" in out


def test_a_validator_that_could_halt_alone_is_named(tmp_path: Path, authority: Path) -> None:
    ran = create(tmp_path, authority, [2, 1, 1], "--quorum", 3)
    heavy = short(peer_id(VALIDATORS[0].key))
    assert ran.err == f"p2pd: warning: validator {heavy} can halt the network alone\n"


def test_a_validator_that_decides_alone_is_named(tmp_path: Path, authority: Path) -> None:
    ran = create(tmp_path, authority, [5, 1, 1], "--quorum", 4)
    heavy = short(peer_id(VALIDATORS[0].key))
    said = f"p2pd: warning: validator {heavy} decides alone, and can halt the network\n"
    assert ran.err == said


def test_a_quorum_of_all_is_warned_of_once(tmp_path: Path, authority: Path) -> None:
    ran = create(tmp_path, authority, [1, 1, 1], "--quorum", 3)
    assert ran.err == (
        "p2pd: warning: every validator can halt the network alone: none may be away\n"
    )


def test_a_quorum_of_one_is_allowed_with_a_warning(tmp_path: Path, authority: Path) -> None:
    ran = create(tmp_path, authority, [1], "--quorum", 1)
    assert ran.code == 0
    assert "warning: a quorum of 1 is for a lab" in ran.err


def test_a_network_without_weak_points_is_not_warned_of(tmp_path: Path, authority: Path) -> None:
    assert create(tmp_path, authority, [1, 1, 1, 1]).err == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--quorum", 2], "quorum must be more than half of the weight 4, got 2"),
        (["--quorum", 0], "quorum must be more than half of the weight 4, got 0"),
        (["--quorum", -1], "quorum must be more than half of the weight 4, got -1"),
        (["--threshold", 0], "threshold must be more than half of 1 authority key, got 0"),
        (["--quorum", 5], "quorum must be more than half of the weight 4, got 5"),
        (["--admission", "invite"], "admission 'invite' is not supported; only open is"),
        (["--validator", "zz"], "public key 'zz' must be lowercase hex digits only"),
        (["--validator", VALIDATORS[0].key.hex()], "each once"),
        (["--validator", VALIDATORS[0].key.hex() + ":x"], "the weight must be a whole number"),
        (["--validator", "00" * 32], "is no key that anybody holds"),
        (["--validator", VALIDATORS[0].key.hex() + ":" + "9" * 5000], "must be a whole number"),
        (["--name", "a\x1b[31m"], "1 to 64 printable characters"),
        (
            ["--authority-key", VALIDATORS[0].key.hex()],
            "2 keys must sign, 1 given: name more key files",
        ),
        (
            ["--authority-key", VALIDATORS[0].key.hex(), "--threshold", 1],
            "more than half of 2 authority keys",
        ),
    ],
)
def test_what_makes_no_network_is_refused(
    tmp_path: Path, authority: Path, more: list[object], said: str
) -> None:
    ran = create(tmp_path, authority, [1, 1, 1, 1], *more)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "genesis.cbor").exists()


def test_several_authorities_sign_and_others_are_only_named(
    tmp_path: Path, authority: Path
) -> None:
    p2pd("id", "--data-dir", tmp_path / "second")
    absent = key("absent").key.hex()
    more = ["--authority", tmp_path / "second" / "key", "--authority-key", absent]
    made = create(tmp_path, authority, [1, 1, 1, 1], *more, "--json").json
    assert made["threshold"] == 2
    assert made["authority"][2] == absent
    assert p2pd("network", "show", tmp_path / "genesis.cbor").code == 0


def test_a_file_gives_the_settings_and_options_win(tmp_path: Path, authority: Path) -> None:
    seats = ", ".join(f'"{signer.key.hex()}"' for signer in VALIDATORS)
    file = tmp_path / "network.toml"
    file.write_text(
        f'[network]\nname = "filed"\nauthority = ["authority"]\nvalidators = [{seats}]\nquorum = 4\n'
    )
    out = tmp_path / "g.cbor"
    made = p2pd("network", "create", "--from", file, "--quorum", 3, "--out", out, "--json").json
    assert (made["name"], made["quorum"]) == ("filed", 3)


@pytest.mark.parametrize("key_", ["quorum", "threshold"])
def test_a_zero_in_a_file_is_no_default_either(tmp_path: Path, authority: Path, key_: str) -> None:
    file = tmp_path / "network.toml"
    file.write_text(
        f'[network]\nname = "filed"\nauthority = ["authority"]\n'
        f'validators = ["{VALIDATORS[0].key.hex()}"]\n{key_} = 0\n'
    )
    ran = p2pd("network", "create", "--from", file, "--out", tmp_path / "g.cbor")
    assert ran.code == 2
    assert f"{key_} must be more than half" in ran.err
    assert not (tmp_path / "g.cbor").exists()


def test_a_misspelt_key_is_named_with_its_line(tmp_path: Path, authority: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(f'[network]\nname = "x"\nquorm = 3\nauthority = ["{authority}"]\n')
    ran = p2pd("network", "create", "--from", file, "--out", tmp_path / "g.cbor")
    assert ran.code == 2
    assert f"p2pd: {file}:3: network.quorm: unknown key; did you mean quorum?\n" in ran.err
    assert all(line.startswith("p2pd: ") for line in ran.err.splitlines())


def test_a_changed_byte_of_a_genesis_is_found(tmp_path: Path, authority: Path) -> None:
    create(tmp_path, authority, [1, 1, 1, 1])
    file = tmp_path / "genesis.cbor"
    data = bytearray(file.read_bytes())
    data[data.index(b"lab")] ^= 1
    file.write_bytes(data)
    ran = p2pd("network", "show", file)
    assert ran.code == 1
    assert f"p2pd: {file}: not a signed genesis" in ran.err


def test_a_missing_genesis_is_a_matter_of_usage(tmp_path: Path) -> None:
    ran = p2pd("network", "show", tmp_path / "none.cbor")
    assert ran.code == 2
    assert ran.err == f"p2pd: {tmp_path / 'none.cbor'}: there is no such file: look at the path\n"


def test_a_genesis_is_never_overwritten(tmp_path: Path, authority: Path) -> None:
    create(tmp_path, authority, [1, 1, 1, 1])
    before = (tmp_path / "genesis.cbor").read_bytes()
    ran = create(tmp_path, authority, [1, 1, 1, 1])
    assert ran.code == 2
    assert "exists already" in ran.err
    assert (tmp_path / "genesis.cbor").read_bytes() == before
