"""`p2pd doctor`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import trio
import typer

from p2pd.cli.inputs import parse_config
from p2pd.cli.output import AsJson, say, say_json
from p2pd.core.wording import counted, size
from p2pd.daemon.capability import lease_samples, safe_batch
from p2pd.daemon.doctor import Found, examine_machine
from p2pd.errors import UsageError
from p2pd.io.probing import Machine
from p2pd.io.worker import WorkerSettings

GIGA = 1e9
SMALL_SHARED_BYTES = 256 * 2**20


def command(  # noqa: PLR0913 - one parameter per option
    *,
    config: Annotated[
        Path | None,
        typer.Option(envvar="P2PD_CONFIG", metavar="FILE", help="Configuration of the node."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Data directory of the node.  [./]")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="MODULE", help="Workload that is to run here.")
    ] = None,
    workload_path: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the module, if it is not installed."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Directory that p2pd data shard wrote; repeat."),
    ] = None,
    build: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For the module's build; repeat.")
    ] = None,
    in_json: AsJson = False,
) -> None:
    """Exits with 1 if the machine cannot play the role of the configuration."""
    role, place, threads, memory_bytes = "", data_dir or Path(), 1, 0
    if config is not None:
        from p2pd.daemon.settings import load_node  # noqa: PLC0415 - slow, and seldom needed

        node = load_node(config)
        role, place = node.node.role, data_dir or node.node.data_dir
        threads, memory_bytes = node.worker.threads, node.worker.memory_bytes
    settings = None
    if workload is not None:
        settings = WorkerSettings(
            module=workload,
            config=parse_config(build or []),
            paths=(workload_path,) if workload_path else (),
            data=tuple(data or ()),
            threads=threads,
            memory_bytes=memory_bytes or None,
        )
    elif build or workload_path or data:
        raise UsageError(
            "--build, --data and --workload-path belong to --workload: name the module"
        )
    found = trio.run(examine_machine, place, settings)
    if in_json:
        say_json(as_json(found))
    else:
        say(*lines(found))
    if any(one.role == role and not one.can for one in found.roles):
        raise typer.Exit(1)


def as_json(found: Found) -> dict[str, object]:
    whole = asdict(found)
    fit = found.fit
    whole["safe_batch"] = None if fit is None else safe_batch(found.machine, fit)
    whole["lease_samples"] = None if fit is None else lease_samples(fit)
    return whole


def lines(found: Found) -> list[str]:
    return [
        *_machine(found.machine),
        *_running(found),
        *_workload(found),
        "",
        *(
            f"{'can' if one.can else 'cannot'} be a {one.role}"
            + (f": {one.why}" if one.why else "")
            for one in found.roles
        ),
    ]


def _machine(machine: Machine) -> list[str]:
    return [
        f"system      {machine.system}, Python {machine.python}, {machine.cores:g} cores",
        f"memory      {_memory(machine)}",
        f"disk        {_disk(machine)}",
        f"/dev/shm    {_shared(machine)}",
        f"files       {machine.open_files} may be open",
        f"UDP         a socket buffers {size(machine.udp_buffer_bytes)}"
        + ("" if machine.udp_buffer_bytes >= 2**20 else ": raise net.core.rmem_max for fast links"),
        f"clock       {_clock(machine)}",
        *_torch(machine),
    ]


def _memory(machine: Machine) -> str:
    found = machine.memory
    if found is None:
        return "not known"
    limit = "" if found.limit is None else f", the control group may hold {size(found.limit)}"
    return f"{size(found.available)} left of {size(found.total)}{limit}"


def _disk(machine: Machine) -> str:
    disk = machine.disk
    if disk.room is None:
        return f"{disk.place}: not known"
    sync = f"a megabyte is safe after {1000 * disk.sync_s:.1f} ms" if disk.sync_s else disk.why
    return f"{disk.place}: {size(disk.room.free)} free of {size(disk.room.total)}, {sync}"


def _shared(machine: Machine) -> str:
    if machine.shared is None:
        return "there is none"
    small = machine.shared.total < SMALL_SHARED_BYTES
    advice = ": small for data loaders with processes of their own" if small else ""
    return f"{size(machine.shared.free)} free of {size(machine.shared.total)}{advice}"


def _clock(machine: Machine) -> str:
    if machine.clock_kept is None:
        return "not known whether it is kept right"
    return (
        "kept right"
        if machine.clock_kept
        else "nothing keeps it right: run chrony, or an NTP client"
    )


def _torch(machine: Machine) -> list[str]:
    if machine.torch is None:
        return [f"torch       {machine.torch_why}"]
    torch = machine.torch
    said = [f"torch       {torch.version}, {counted(torch.threads, 'thread')}"]
    for device in torch.devices:
        room = (
            f", {size(device.free_bytes)} free of {size(device.total_bytes)}"
            if device.total_bytes
            else ""
        )
        said.append(
            f"  {device.name:9} {device.kind}{room}, {device.flops / GIGA:.0f} GFLOP/s in float32"
        )
    return said


def _running(found: Found) -> list[str]:
    node = found.running
    if node is None:
        return ["node        none runs here: its bandwidth is measured by what it transfers"]
    said = [
        f"node        a {node.role} with {counted(node.links, 'link')}; most it sent"
        f" {size(round(node.sent_bytes_s))}/s, received {size(round(node.received_bytes_s))}/s"
    ]
    return said + [f"  !         {line}" for line in node.troubles]


def _workload(found: Found) -> list[str]:
    if found.fit_why:
        return [f"workload    {found.fit_why}"]
    fit = found.fit
    if fit is None:
        return []
    batch = safe_batch(found.machine, fit)
    safe = "" if batch is None else f"; {batch:,} fit into the memory that is left"
    on_device = f", {size(fit.device_peak_bytes)} on {fit.device}" if fit.device else ""
    return [
        f"workload    {fit.module}: {fit.samples_s:,.0f} samples/s, about {lease_samples(fit):,} in a minute",
        f"  memory    {size(fit.peak_bytes)} at most, {size(fit.built_bytes)} before the first lease{on_device}",
        f"  batch     {counted(fit.batch, 'sample')}{safe}",
        f"  update    {size(fit.state_bytes)} in f32; one evaluation takes {fit.evaluate_s:.3g} s",
    ]
