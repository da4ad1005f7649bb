"""Seeds only introduce: a running network does not need them."""

from tests.faults.scene import Scene, calm, play


def test_a_network_whose_seed_is_gone_for_good_goes_on_and_takes_back_who_restarts() -> None:
    async def script(scene: Scene) -> None:
        names = [name for name in scene.fleet.shape.names() if name != "seed1"]
        scene.start(*names)
        await scene.promotes(3)
        scene.kill("seed1")
        await scene.promotes(6)
        again = ("validator2", "trainer1", "viewer1")
        scene.kill(*again)
        await scene.promotes(8)
        scene.start(*again)
        await scene.promotes(12)
        await scene.until("all stand on one decision", lambda: scene.agreed)
        peers = {scene.peer(name) for name in names}
        for name in again:
            links = scene.fleet.nodes[name].transport.links()
            assert {link.peer for link in links} == peers - {scene.peer(name)}

    play(script, calm())
