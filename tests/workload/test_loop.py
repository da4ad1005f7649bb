"""The set-ups of plain torch training, through the loop."""

import copy
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim import LBFGS, SGD, Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch
from p2pd.workload.contract import Cancelled, Evaluated, Lease, Trained
from p2pd.workload.forward import Forward
from p2pd.workload.learner import Callback, Learner
from p2pd.workload.loop import Loop

SAMPLES = 24


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(1)
    values = torch.randn(SAMPLES, 3, generator=chance)
    return values, (values.sum(1) > 0).long()


def batches(*sizes: int) -> list[Batch]:
    values, targets = inputs()
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return [Batch((values[part], targets[part]), *[part.stop - part.start] * 2) for part in parts]


def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def learner(**parts: Any) -> Learner:
    net = model()
    return Learner(net, SGD(net.parameters(), lr=0.5, momentum=0.9), **parts)


def lease(steps: int = 0) -> Lease:
    return Lease(range(SAMPLES), steps, 3, lambda: None)


def run(parts: Learner, given: Sequence[Batch], work: Lease | None = None) -> Trained:
    return Loop(parts, Forward(parts)).run(work or lease(), given)


def weights(parts: Learner) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in parts.model.parameters()])


def test_accumulated_batches_are_the_step_of_the_larger_batch() -> None:
    whole, split = learner(), learner(accumulate=3)
    one = run(whole, batches(12, 10))
    other = run(split, batches(4, 4, 4, 5, 5))
    assert (one.steps, other.steps, other.samples) == (2, 2, 22)
    assert one.loss == pytest.approx(other.loss, rel=1e-6)
    assert (weights(whole) - weights(split)).abs().max() < 1e-6


def test_batches_of_unequal_size_count_by_their_samples() -> None:
    whole, split = learner(), learner(accumulate=2)
    run(whole, batches(12))
    run(split, batches(11, 1))
    assert (weights(whole) - weights(split)).abs().max() < 1e-6


@pytest.mark.parametrize("clip", [{"clip_norm": 1e-3}, {"clip_value": 1e-4}])
def test_gradients_are_clipped_before_the_step(clip: dict[str, float]) -> None:
    parts = learner(**clip)
    before = weights(parts)
    run(parts, batches(12))
    moved = (weights(parts) - before) / 0.5
    if "clip_norm" in clip:
        assert moved.norm().item() == pytest.approx(1e-3, rel=1e-3)
    else:
        assert moved.abs().max().item() == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_trains_a_model_that_stays_in_float32(precision: str) -> None:
    parts, plain = learner(precision=precision), learner()
    seen: list[torch.dtype] = []
    parts.model.register_forward_hook(lambda *args: seen.append(args[2].dtype))
    run(plain, batches(12, 12))
    run(parts, batches(12, 12))
    assert set(seen) == {torch.bfloat16 if precision == "bf16" else torch.float16}
    assert weights(parts).dtype == torch.float32
    assert 0 < (weights(parts) - weights(plain)).abs().max() < 0.02


def test_float16_survives_gradients_that_overflow_its_scale() -> None:
    parts = learner(precision="fp16", loss=lambda out, to: functional.cross_entropy(out, to) * 3000)
    loop = Loop(parts, Forward(parts))
    before = weights(parts)
    loop.run(lease(), batches(*[1] * SAMPLES))
    assert bool(torch.isfinite(weights(parts)).all())
    assert not torch.equal(before, weights(parts))


class Pair(nn.Module):
    """A generator of numbers, and a judge of them."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Linear(2, 1)
        self.judge = nn.Linear(1, 1)


def gan(parts: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Iterator[torch.Tensor]:
    """As in the tutorials: the judge steps on true and made ones, then the maker against it."""
    assert isinstance(parts, Pair)
    true = batch[0][:, :1]
    made = parts.maker(torch.randn(len(true), 2))
    yield (
        functional.softplus(-parts.judge(true)) + functional.softplus(parts.judge(made.detach()))
    ).mean()
    yield functional.softplus(-parts.judge(made)).mean()


def two(parts: Pair) -> list[Optimizer]:
    return [Adam(parts.judge.parameters(), lr=0.1), Adam(parts.maker.parameters(), lr=0.1)]


def test_a_gan_of_two_optimizers_is_its_own_plain_loop() -> None:
    torch.manual_seed(4)
    ours = Pair()
    theirs = copy.deepcopy(ours)
    torch.manual_seed(7)
    optimizers = two(theirs)
    for batch in batches(12, 12):
        losses = gan(theirs, batch.content)
        for optimizer in optimizers:
            optimizer.zero_grad()
            torch.autograd.backward(next(losses))
            optimizer.step()
    torch.manual_seed(7)
    run(Learner(ours, two(ours), step=gan), batches(12, 12))
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_gan_accumulates_too() -> None:
    def fixed(parts: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Iterator[torch.Tensor]:
        assert isinstance(parts, Pair)
        made = parts.maker(batch[0][:, 1:])
        yield (parts.judge(made.detach()) - parts.judge(batch[0][:, :1])).square().mean()
        yield parts.judge(made).square().mean()

    torch.manual_seed(4)
    whole = Pair()
    split = copy.deepcopy(whole)
    run(Learner(whole, two(whole), step=fixed), batches(12))
    run(Learner(split, two(split), step=fixed, accumulate=3), batches(4, 6, 2))
    for mine, other in zip(whole.parameters(), split.parameters(), strict=True):
        assert (mine - other).abs().max() < 1e-6


def test_several_optimizers_share_one_loss_and_have_schedulers_of_their_own() -> None:
    net = model()
    first = SGD(net[0].parameters(), lr=0.1)  # type: ignore[index]
    last = SGD(net[2].parameters(), lr=0.1)  # type: ignore[index]
    cycle = [OneCycleLR(one, max_lr=1.0, total_steps=10) for one in (first, last)]
    parts = Learner(net, [first, last], [cycle[0], None])
    before = weights(parts)
    run(parts, batches(12, 12), lease(steps=2))
    assert not torch.equal(before, weights(parts))
    assert first.param_groups[0]["lr"] != pytest.approx(0.04)
    assert cycle[0].last_epoch == 4
    with pytest.raises(WorkloadError, match="belongs to another optimizer"):
        Loop(wrong := Learner(net, [first, last], cycle[::-1]), Forward(wrong))
    with pytest.raises(WorkloadError, match="1 scheduler for 2 optimizers: give one for each"):
        Learner(net, [first, last], cycle[0])


def test_a_scheduler_may_count_epochs_of_so_many_steps() -> None:
    net = model()
    optimizer = SGD(net.parameters(), lr=1.0)
    epochs = LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    parts = Learner(net, optimizer, epochs, scheduler_every=4)
    loop = Loop(parts, Forward(parts))
    for steps, rate in ((0, 1.0), (9, 0.25), (2, 0.5)):
        loop.run(lease(steps), batches(8, 8))
        assert optimizer.param_groups[0]["lr"] == rate


def test_a_step_of_ones_own_takes_dicts() -> None:
    def step(net: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(net(batch["pixels"]), batch["label"])

    plain, own = learner(), learner(step=step)
    run(plain, batches(12))
    values, targets = batches(12)[0].content
    run(own, [Batch({"pixels": values, "label": targets}, 12, 12)])
    assert torch.equal(weights(plain), weights(own))


class Telling(Callback):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def lease_started(self, lease: Lease) -> None:
        self.heard.append(lease.steps)

    def step_done(self, step: int, loss: float) -> None:
        self.heard.append((step, loss > 0))

    def lease_ended(self, trained: Trained) -> None:
        self.heard.append(trained)

    def evaluated(self, result: Evaluated) -> None:
        raise AssertionError


def test_callbacks_are_told_in_order() -> None:
    telling = Telling()
    trained = run(learner(callbacks=[telling, Callback()]), batches(12, 12), lease(steps=40))
    assert telling.heard == [40, (40, True), (41, True), trained]


def test_hyperparameters_follow_the_certified_step() -> None:
    net = model()
    optimizer = SGD(net.parameters(), lr=0.1, momentum=0.5)
    table = {"10": {"momentum": 0.9}, "12": {"lr": 0.01, "momentum": 0.8}}
    parts = Learner(net, optimizer, hyperparameters=table)
    loop = Loop(parts, Forward(parts))
    for steps, expected in ((8, (0.1, 0.5)), (9, (0.1, 0.9)), (11, (0.01, 0.8)), (0, (0.1, 0.5))):
        loop.run(lease(steps), batches(8, 8))
        group = optimizer.param_groups[0]
        assert (group["lr"], group["momentum"]) == expected


def one_more(net: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Iterator[torch.Tensor]:
    for _ in range(2):
        yield functional.cross_entropy(net(batch[0]), batch[1])


def none(net: nn.Module, batch: object) -> Iterator[torch.Tensor]:
    yield from ()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"accumulate": 0}, "accumulate must be a whole number of at least 1, got 0"),
        ({"clip_norm": -1.0}, r"clip_norm must be positive, got -1\.0"),
        ({"precision": "fp8"}, "precision 'fp8' is none of f32, bf16, fp16"),
        ({"hyperparameters": {"5": {"rate": 1}}}, "no setting 'rate': it has dampening"),
        ({"hyperparameters": {"soon": {"lr": 1}}}, "'soon' is no step"),
        ({"step": lambda net, batch: 3}, "step returned int: return the loss of the batch"),
        ({"step": one_more}, "step yields too many losses"),
        ({"step": none}, "the loss of a batch is nothing: it must be a tensor of one number"),
        ({"loss": nn.CrossEntropyLoss(reduction="none")}, r"the loss of a batch is Tensor \(12,\)"),
        ({"loss": lambda out, to: out.sum() * math.inf}, "the loss is (inf|-inf|nan) at step 1"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_advice(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        run(learner(**parts), batches(12))


def test_lbfgs_and_a_rate_of_two_masters_are_refused() -> None:
    net = model()
    with pytest.raises(WorkloadError, match="LBFGS computes its own losses"):
        Learner(net, LBFGS(net.parameters()))
    optimizer = SGD(net.parameters(), lr=0.1)
    both = Learner(
        net, optimizer, LambdaLR(optimizer, lambda step: 1.0), hyperparameters={"3": {"lr": 0.1}}
    )
    with pytest.raises(WorkloadError, match="lr is the scheduler's"):
        Loop(both, Forward(both))


def test_a_lease_is_called_off_between_batches() -> None:
    asked: list[int] = []

    def pause() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise Cancelled

    parts = learner(accumulate=2)
    before = weights(parts)
    with pytest.raises(Cancelled):
        run(parts, batches(8, 8, 8), Lease(range(SAMPLES), 0, 3, pause))
    assert torch.equal(before, weights(parts))


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_a_compiled_model_trains_and_without_a_compiler_the_line_is_clear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor import config  # noqa: PLC0415 - takes seconds

    parts = learner(compile=True)
    with (
        config.patch({"cpp.cxx": (None, "/nonexistent")}),
        pytest.raises(WorkloadError, match=r"torch\.compile failed here: .*No working C\+\+"),
    ):
        run(parts, batches(12))
    torch.compiler.reset()
    # All of it but the C++ compiler, which would take half a minute.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    plain, parts = learner(), learner(compile=True)
    run(plain, batches(12))
    run(parts, batches(12))
    assert (weights(plain) - weights(parts)).abs().max() < 1e-6
