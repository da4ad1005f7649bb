import pytest

from p2pd.errors import WorkloadError
from p2pd.workload.devices.placement import BUILT, places_of, require_strategy, strategy_of
from p2pd.workload.devices.solo import Single
from p2pd.workload.devices.strategies import STRATEGIES
from p2pd.workload.protocol import AS_BUILT, Devices

CUDA = "p2pd.workload.devices.placement.torch.cuda.device_count"


@pytest.mark.parametrize(
    ("wanted", "gpus", "places"),
    [
        (AS_BUILT, 2, (BUILT,)),
        (Devices(("auto",)), 0, (BUILT,)),
        (Devices(("auto",)), 2, ("cuda:0", "cuda:1")),
        (Devices(("cuda:1",)), 2, ("cuda:1",)),
        (Devices(("cpu", "cpu")), 2, ("cpu", "cpu")),
        (Devices(workers=3), 2, ("cpu",) * 3),
    ],
)
def test_there_is_a_worker_for_each_device(
    wanted: Devices, gpus: int, places: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CUDA, lambda: gpus)
    assert places_of(wanted) == places


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("gpu",), "trainer.devices has 'gpu', which torch does not know: cpu, cuda:0"),
        (("cuda:2",), "trainer.devices has 'cuda:2', and torch sees 2 GPUs here"),
        (("cuda:0", "cpu"), "are not of one kind"),
        (("cuda:0", "cuda:0"), "names a GPU twice"),
    ],
)
def test_what_cannot_compute_here_is_named(
    names: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CUDA, lambda: 2)
    with pytest.raises(WorkloadError, match=said):
        places_of(Devices(names))


def test_the_strategy_is_the_nodes_else_the_workloads_else_ddp() -> None:
    own = Single()
    assert strategy_of("multi", own) is STRATEGIES["multi"]
    assert strategy_of("auto", own) is own
    assert strategy_of("auto", None) is STRATEGIES["ddp"]


def test_a_strategy_that_does_not_exist_or_fit_is_refused() -> None:
    require_strategy("single", 1)
    require_strategy("ddp", 2)
    with pytest.raises(WorkloadError, match="'fsdp' is none of auto, single, ddp, multi"):
        require_strategy("fsdp", 2)
    with pytest.raises(WorkloadError, match=r"single is for one device, and .* has 2: say ddp"):
        require_strategy("single", 2)
