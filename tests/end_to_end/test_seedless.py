"""A network that outlives its seeds, on real daemons."""

from pathlib import Path

import trio

from tests.end_to_end.fleet_bench import Bench, Built, found, open_bench, until

NAMES = ("alice", "bob", "carol")
LIMIT_S = 120.0


async def linked(bench: Bench, name: str) -> set[str]:
    return {peer["peer"] for peer in (await bench.answers(name))["peers"] if peer["linked"]}


async def all_meet(bench: Bench, *names: str) -> None:
    for name in names:
        wanted = {bench.founded.peer(other) for other in names if other != name}

        async def met(name: str = name, wanted: set[str] = wanted) -> bool:
            return wanted <= await linked(bench, name)

        await until(f"{name} is linked to the others", met)


def test_nodes_find_each_other_again_with_every_seed_dead(tmp_path: Path, built: Built) -> None:
    """Case A1: who was there goes on; one that restarts, and one that is new, come in without it."""

    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            async with open_bench(found(tmp_path, built)) as bench:
                await bench.start_seed()
                for name in NAMES:
                    bench.start(name, "viewer")
                await all_meet(bench, "seed", *NAMES)
                bench.kill("seed")
                bench.kill("carol")
                bench.start("carol", "viewer")  # which still has no other seed than the dead one
                await all_meet(bench, *NAMES)
                old = (await bench.answers("alice"))["node"]
                bench.start("dave", "viewer", seeds=(f"{old['peer']}@{old['address']}",))
                await all_meet(bench, *NAMES, "dave")

    trio.run(main)
