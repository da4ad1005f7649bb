"""The configuration files that `fleet up` and `demo` write for their nodes."""

import json
from pathlib import Path
from typing import TypedDict, Unpack


class NodeFile(TypedDict, total=False):
    role: str
    name: str
    data_dir: Path
    genesis: Path
    record: Path | None
    seeds: tuple[str, ...]
    listen: str
    workload_path: Path | None
    threads: int
    data: Path | None
    datagram_bytes: int
    attached: bool


def node_toml(**keys: Unpack[NodeFile]) -> str:
    """TOML for `p2pd run --config`; paths should be absolute."""
    overlay: dict[str, object] = {"listen": keys["listen"]}
    if "datagram_bytes" in keys:
        overlay["datagram_bytes"] = keys["datagram_bytes"]
    experiment = {"record": keys.get("record"), "workload_path": keys.get("workload_path")}
    tables: dict[str, dict[str, object]] = {
        "node": {name: keys[name] for name in ("role", "name", "data_dir")},
        "network": {"genesis": keys["genesis"], "seeds": list(keys.get("seeds", ()))},
        "overlay": overlay,
        "worker": {"threads": keys.get("threads", 1), "attached": keys.get("attached", False)},
        "data": {"serve": data} if (data := keys.get("data")) is not None else {},
        "experiment": {key: value for key, value in experiment.items() if value is not None},
    }
    lines: list[str] = []
    for table, entries in tables.items():
        lines += [f"[{table}]", *(f"{key} = {_value(v)}" for key, v in entries.items()), ""]
    return "\n".join(lines)


def _value(value: object) -> str:
    # JSON's strings, integers, booleans and arrays of strings are TOML's as well.
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
