"""`p2pd data`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.inputs import refuse_existing, refuse_inside
from p2pd.cli.output import AsJson, group, say, say_json
from p2pd.cli.revisions import size
from p2pd.core.shards import SHARD_SAMPLES_MOST, TRAIN, ShardSet
from p2pd.core.wording import counted
from p2pd.io.sample_files import read_files
from p2pd.io.shard_directory import open_directory
from p2pd.io.shard_writer import Source, write_set

app = group()

VALID = "valid"
SAMPLES_PER_SHARD = 64
"""A microshard, and so a lease, is made of whole files where both have as many samples."""


@app.command()
def shard(  # noqa: PLR0913 - one parameter per option
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A directory of files, or of one directory a class; a FILE.jsonl; a FILE with --record-bytes;"
            " or MODULE:CALLABLE, which gives a map-style data set of PyTorch.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the set goes.")],
    valid: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="The same for the validation set.")
    ] = None,
    samples_per_shard: Annotated[
        int, typer.Option(min=1, max=SHARD_SAMPLES_MOST, metavar="N", help="Samples in each file.")
    ] = SAMPLES_PER_SHARD,
    record_bytes: Annotated[
        int, typer.Option(min=0, metavar="N", help="Size of each sample in a FILE of bytes.")
    ] = 0,
    workload_path: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of MODULE, if not installed.")
    ] = None,
    in_json: AsJson = False,
) -> None:
    """Write a data set as shard files, which nodes fetch with their leases."""
    refuse_existing(out)
    refuse_inside(out)
    if workload_path is not None:
        sys.path.insert(0, str(workload_path))
    names = {TRAIN: source} if valid is None else {TRAIN: source, VALID: valid}
    with redirect_stdout(sys.stderr):  # what the data set's own code prints is no answer of ours
        sources = {split: source_of(name, record_bytes) for split, name in names.items()}
        shards = write_set(out, sources, samples_per_shard)
    _show(shards, out, in_json=in_json)


@app.command()
def check(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="What p2pd data shard wrote, or a copy of it.")
    ],
    in_json: AsJson = False,
) -> None:
    """Read every byte of a set in shard files again, and show what it is."""
    found = open_directory(directory)
    for artifact in found.files:
        found.check(artifact)
    _show(found.shards, directory, in_json=in_json)


def source_of(name: str, record_bytes: int) -> Source:
    """The samples that a SOURCE of the command line names."""
    module, colon, _ = name.partition(":")
    if not colon or Path(name).exists() or not all(map(str.isidentifier, module.split("."))):
        return read_files(Path(name), record_bytes)
    # torch takes seconds to load: only who shards a data set of its waits for it.
    from p2pd.workload.sharding import records_of_named  # noqa: PLC0415

    return Source(name, records_of_named(name))


def _show(shards: ShardSet, directory: Path, *, in_json: bool) -> None:
    if in_json:
        say_json(
            {
                "data": shards.id.hex(),
                "directory": str(directory),
                "classes": list(shards.classes),
                "splits": {
                    split.name: {
                        "samples": split.samples,
                        "samples_per_shard": split.shard_samples,
                        "files": len(split.sizes),
                        "bytes": sum(split.sizes),
                    }
                    for split in shards.splits
                },
            }
        )
        return
    say(f"data       {shards.id.hex()}", f"directory  {directory}")
    for split in shards.splits:
        say(
            f"{split.name:<9}  {counted(split.samples, 'sample')}, {split.shard_samples} in each of"
            f" {counted(len(split.sizes), 'file')}, {size(sum(split.sizes))}"
        )
    if shards.classes:
        say(f"classes    {len(shards.classes)}: {shards.classes[0]} to {shards.classes[-1]}")
