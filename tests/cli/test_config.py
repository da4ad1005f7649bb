from pathlib import Path

from tests.cli.commands import p2pd

NODE = '[node]\nrole = "viewer"\ndata_dir = "data"\n[network]\ngenesis = "g.cbor"\n'
FLEET = """[fleet]
dir = "lab"
genesis = "g.cbor"
[[nodes]]
name = "seed1"
role = "bootstrap"
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "node.toml"
    file.write_text(text)
    return file


def test_a_sound_file_is_said_to_be_so(tmp_path: Path) -> None:
    file = write(tmp_path, NODE)
    assert p2pd("config", "check", file).out == f"{file}: sound\n"
    assert p2pd("config", "check", file, "--json").json == {
        "file": str(file),
        "ok": True,
        "fleet": False,
    }


def test_a_misspelt_key_is_named_with_file_line_and_what_was_meant(tmp_path: Path) -> None:
    file = write(tmp_path, NODE + '[overlay]\nlistn = "127.0.0.1:0"\n')
    ran = p2pd("config", "check", file)
    assert ran.code == 2
    assert ran.err == f"p2pd: {file}:7: overlay.listn: unknown key; did you mean listen?\n"


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, NODE.replace('"viewer"', "7") + "[worker]\nthreads = 0\n")
    ran = p2pd("config", "check", file)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 2


def test_a_fleet_file_is_checked_as_one(tmp_path: Path) -> None:
    file = write(tmp_path, FLEET)
    assert p2pd("config", "check", file, "--json").json["fleet"] is True
    file.write_text(FLEET + "nme = 1\n")
    ran = p2pd("config", "check", file)
    assert ran.code == 2
    assert "nodes[0].nme: unknown key" in ran.err


def test_a_missing_file_is_a_matter_of_usage(tmp_path: Path) -> None:
    ran = p2pd("config", "check", tmp_path / "none.toml")
    assert ran.code == 2
    assert "there is no such configuration file" in ran.err


def test_what_is_shown_takes_effect_alike(tmp_path: Path) -> None:
    file = write(tmp_path, NODE)
    shown = p2pd("config", "show", file)
    again = tmp_path / "shown.toml"
    again.write_text(shown.out)
    assert p2pd("config", "show", again).out == shown.out
    assert (
        p2pd("config", "show", again, "--json").json == p2pd("config", "show", file, "--json").json
    )


def test_defaults_and_paths_are_shown_as_they_take_effect(tmp_path: Path) -> None:
    found = p2pd("config", "show", write(tmp_path, NODE), "--json").json
    assert found["node"]["data_dir"] == str(tmp_path / "data")
    assert found["overlay"]["listen"] == "127.0.0.1:0"


def test_without_a_file_every_key_is_explained() -> None:
    text = p2pd("config", "show").out
    keys = p2pd("config", "show", "--json").json
    for table, entries in keys.items():
        assert f"[{table}]" in text
        for key, entry in entries.items():
            assert f"#{key} = " in text
            assert entry["meaning"]
