import copy
import math
from collections import OrderedDict
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from p2pd import Learner, Workload, from_loaders
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Cancelled, Lease
from p2pd.workload.metrics import Metric, accuracy

SAMPLES = 24
VALID = 10


def never() -> None:
    pass


def learner(lr: float = 0.1) -> Learner:
    torch.manual_seed(5)
    layers = OrderedDict(
        first=nn.Linear(3, 8),
        norm=nn.BatchNorm1d(8),
        drop=nn.Dropout(0.25),
        last=nn.Linear(8, 2),
    )
    model = nn.Sequential(layers)
    optimizer = SGD(model.parameters(), lr=lr, momentum=0.9)
    return Learner(model, optimizer, StepLR(optimizer, 4, 0.5), functional.cross_entropy)


Loader = DataLoader[tuple[torch.Tensor, ...]]


def sets() -> tuple[TensorDataset, TensorDataset]:
    chance = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES + VALID, 3, generator=chance)
    targets = (inputs.sum(1) > 0).long()
    train = TensorDataset(inputs[:SAMPLES], targets[:SAMPLES])
    valid = TensorDataset(inputs[SAMPLES:], targets[SAMPLES:])
    return train, valid


def loaders() -> tuple[Loader, Loader]:
    train, valid = sets()
    return DataLoader(train, batch_size=6, shuffle=True), DataLoader(valid, batch_size=4)


def workload(parts: Learner | None = None) -> Workload:
    return from_loaders(parts or learner(), *loaders())


def lease(samples: range | list[int], *, steps: int = 0, seed: int = 3) -> Lease:
    return Lease(samples, steps, seed, never)


def test_training_a_lease_is_the_users_own_loop_over_the_leased_samples() -> None:
    theirs = learner()
    torch.manual_seed(3)
    theirs.model.train()
    (optimizer,), (scheduler,) = theirs.optimizers, theirs.schedulers
    assert scheduler is not None
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(3))
    for start in range(0, SAMPLES, 6):
        batch = order[start : start + 6]
        inputs, targets = (part[batch] for part in sets()[0].tensors)
        optimizer.zero_grad()
        loss = functional.cross_entropy(theirs.model(inputs), targets)
        torch.autograd.backward(loss)
        optimizer.step()
        scheduler.step()
    ours = workload()
    result = ours.train(lease(range(SAMPLES)))
    assert (result.samples, result.steps) == (SAMPLES, 4)
    expected = theirs.model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in ours.state().items())


def test_the_same_lease_gives_the_same_bits_and_another_seed_does_not() -> None:
    first, again, other = workload(), workload(), workload()
    for subject, seed in ((first, 3), (again, 3), (other, 4)):
        subject.train(lease(list(range(5, 20)), seed=seed))
    same = [torch.equal(first.state()[name], again.state()[name]) for name in first.state()]
    assert all(same)
    assert not torch.equal(first.state()["last.weight"], other.state()["last.weight"])


def test_the_rate_follows_the_certified_progress_not_the_local_one() -> None:
    parts = learner()
    subject = workload(parts)
    subject.train(lease(range(SAMPLES), steps=0))
    subject.train(lease(range(6), steps=9))
    assert parts.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1 * 0.5 ** (10 // 4))


def test_momentum_is_kept_when_the_base_moves_on() -> None:
    parts = learner()
    subject = workload(parts)
    base = {name: value.detach().clone() for name, value in subject.state().items()}
    subject.train(lease(range(SAMPLES)))
    weight = parts.model.get_parameter("last.weight")
    momentum = parts.optimizers[0].state[weight]["momentum_buffer"].clone()
    subject.load(base)
    assert torch.equal(weight, base["last.weight"])
    assert torch.equal(parts.optimizers[0].state[weight]["momentum_buffer"], momentum)
    assert bool(momentum.any())


def test_a_loss_that_is_not_finite_names_its_step() -> None:
    parts = learner()
    calls: list[int] = []

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return functional.cross_entropy(outputs, targets) * (math.nan if len(calls) == 3 else 1)

    subject = workload(Learner(parts.model, parts.optimizer, parts.scheduler, loss))
    with pytest.raises(WorkloadError, match="the loss is nan at step 3 of the lease"):
        subject.train(lease(range(SAMPLES)))


def test_training_stops_between_steps_when_called_off() -> None:
    subject = workload()
    asked: list[int] = []

    def pause() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        subject.train(Lease(range(SAMPLES), 0, 3, pause))
    assert int(subject.state()["norm.num_batches_tracked"]) == 2


def test_evaluation_covers_the_whole_validation_set_and_changes_nothing() -> None:
    parts = learner()
    subject = workload(parts)
    before = copy.deepcopy(dict(subject.state()))
    result = subject.evaluate(never)
    _, valid_loader = loaders()
    inputs, targets = (torch.cat(part) for part in zip(*valid_loader, strict=True))
    parts.model.eval()
    with torch.no_grad():
        outputs = parts.model(inputs)
    assert result.samples == VALID
    assert result.metric == (outputs.argmax(1) == targets).float().mean().item()
    assert result.loss == pytest.approx(functional.cross_entropy(outputs, targets).item())
    assert result == subject.evaluate(never)
    assert all(torch.equal(before[name], value) for name, value in subject.state().items())


def test_losses_of_single_samples_come_in_the_order_asked_for_and_add_up() -> None:
    subject = workload()
    forward = subject.sample_losses(range(VALID), never)
    backward = subject.sample_losses(list(reversed(range(VALID))), never)
    assert backward[::-1] == pytest.approx(forward)
    assert sum(forward) / VALID == pytest.approx(subject.evaluate(never).loss)
    assert len(set(forward)) > 1


def test_a_metric_may_be_a_function_or_the_loss() -> None:
    def misses(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[float, int]:
        return float((outputs.argmax(1) != targets).sum()), len(targets)

    share = from_loaders(learner(), *loaders(), metric=misses, higher_is_better=False)
    loss = from_loaders(learner(), *loaders(), metric="loss", higher_is_better=False)
    assert (share.metric, share.higher_is_better) == ("misses", False)
    assert share.evaluate(never).metric == pytest.approx(1 - workload().evaluate(never).metric)
    assert loss.evaluate(never).metric == loss.evaluate(never).loss


@pytest.mark.parametrize(
    ("metric", "message"), [("f1", "none of accuracy, loss: "), ("loss", "higher_is_better=False")]
)
def test_a_metric_that_cannot_be_measured_is_refused(metric: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        from_loaders(learner(), *loaders(), metric=metric)


def test_batches_that_are_no_pairs_are_refused_with_advice() -> None:
    triples = TensorDataset(torch.zeros(4, 3), torch.zeros(4).long(), torch.zeros(4))
    subject = from_loaders(learner(), DataLoader(triples, batch_size=2), loaders()[1])
    with pytest.raises(WorkloadError, match=r"not a pair \(inputs, targets\)"):
        subject.train(lease(range(4)))


def test_accuracy_without_class_scores_is_refused_with_advice() -> None:
    model = nn.Linear(3, 1)
    pairs = TensorDataset(torch.zeros(4, 3), torch.zeros(4, 1))
    loader = DataLoader(pairs, batch_size=2)
    parts = Learner(model, SGD(model.parameters(), lr=0.1), loss=functional.mse_loss)
    with pytest.raises(WorkloadError, match="needs a tensor of class scores"):
        from_loaders(parts, loader, loader).evaluate(never)


def test_further_metrics_and_probes_are_measured_by_name() -> None:
    def rows(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[float, int]:
        return float(len(targets)), 1

    subject = from_loaders(
        learner(),
        *loaders(),
        metric="rows",
        metrics={"rows": rows, "right": accuracy},
        probes={"weight": lambda model: float(model.get_parameter("last.weight").abs().max())},
    )
    found = subject.evaluate(never)
    assert subject.metric == "rows"
    assert found.metric == pytest.approx(VALID / 3)
    assert found.others == {"right": workload().evaluate(never).metric}
    assert subject.probes(never)["weight"] > 0
    by_loss = from_loaders(
        learner(), *loaders(), metric="loss", higher_is_better=False, metrics={"right": accuracy}
    ).evaluate(never)
    assert (by_loss.metric, by_loss.others) == (by_loss.loss, found.others)


@pytest.mark.parametrize(
    ("metric", "message"),
    [(lambda o, t: 3.0, "<lambda> returned float: return"), (lambda o, t: (0.0, 0), "counted no")],
)
def test_a_metric_that_gives_no_sum_and_count_is_named(metric: Metric, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        from_loaders(learner(), *loaders(), metric=metric).evaluate(never)


def mean_of(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return functional.cross_entropy(model(batch["x"]), batch["y"])


def hits(model: nn.Module, batch: dict[str, torch.Tensor]) -> tuple[float, int]:
    return accuracy(model(batch["x"]), batch["y"])


def as_dict(pairs: list[tuple[torch.Tensor, ...]]) -> dict[str, torch.Tensor]:
    inputs, targets = zip(*pairs, strict=True)
    return {"x": torch.stack(inputs), "y": torch.stack(targets)}


def test_a_step_of_ones_own_is_evaluated_like_the_pairs_it_stands_for() -> None:
    train, valid = sets()
    parts = learner()
    own = from_loaders(
        Learner(parts.model, parts.optimizer, step=mean_of),
        DataLoader(train, batch_size=6, collate_fn=as_dict),
        DataLoader(valid, batch_size=4, collate_fn=as_dict),
        metric=hits,
    )
    pairs = workload()
    mine, other = own.evaluate(never), pairs.evaluate(never)
    assert (mine.metric, mine.samples) == (other.metric, other.samples)
    assert mine.loss == pytest.approx(other.loss)
    losses = own.sample_losses([3, 1], never)
    assert losses == pytest.approx(pairs.sample_losses([3, 1], never))
    assert own.train(lease(range(6))).steps == 1


def test_a_step_that_yields_needs_another_one_for_evaluation() -> None:
    def step(model: nn.Module, batch: object) -> Iterator[torch.Tensor]:
        yield torch.zeros(())

    parts = learner()
    with pytest.raises(WorkloadError, match="give valid_step"):
        from_loaders(Learner(parts.model, parts.optimizer, step=step), *loaders())


def test_what_the_gradient_scaler_knows_is_inner_state() -> None:
    plain, scaled = learner(), learner()
    subject = workload(Learner(scaled.model, scaled.optimizer, precision="fp16"))
    state = subject.inner_state()
    assert state["scaler"]["scale"] > 1
    subject.load_inner_state(state)
    assert workload(plain).inner_state()["scaler"] == {}
