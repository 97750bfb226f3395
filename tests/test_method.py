from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labelnoise import Batch, Learner, LossMethod, Method, Problem, Step
from labelnoise.data.scale import raw
from labelnoise.data.train import Train
from labelnoise.learner import Recipe
from labelnoise.seeds import stream


def problem(seed: int = 0, rows: int = 12) -> Problem:
    made = iter(range(1_000))

    def new_learner() -> Learner:
        torch.manual_seed(100 * seed + next(made))
        return Learner(nn.Linear(4, 3), Recipe(lr=0.01, schedule="constant"))

    return Problem(
        labels=torch.arange(rows) % 3,
        num_classes=3,
        new_learner=new_learner,
        generator=stream(seed, "method"),
    )


def batch(seed: int = 0) -> Batch:
    chance = torch.Generator().manual_seed(seed)
    index = torch.randperm(12, generator=chance)[:6]
    return Batch((torch.randn(6, 4, generator=chance),), index % 3, index, time=0.0)


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    stored = io.BytesIO()
    torch.save(state, stored)
    stored.seek(0)
    loaded: dict[str, Any] = torch.load(stored, weights_only=True)
    return loaded


@dataclass
class Remembering(Method):
    """Two networks, a table with one row a sample, a trained table and chance."""

    decay: float = 0.9

    def setup(self, problem: Problem) -> None:
        self.learner = problem.new_learner()
        self.peer = problem.new_learner()
        self.memory = torch.zeros(len(problem.labels), problem.num_classes)
        self.offsets = torch.zeros(len(problem.labels), requires_grad=True)
        self.generator = problem.generator

    def step(self, batch: Batch) -> Step:
        noise = torch.rand(len(batch.index), generator=self.generator)
        logits = self.learner.logits(batch.inputs) + self.offsets[batch.index, None]
        losses = nn.functional.cross_entropy(logits, batch.labels, reduction="none") * noise
        self.learner.descend(losses.mean())
        peer = nn.functional.cross_entropy(self.peer.logits(batch.inputs), batch.labels)
        self.peer.descend(peer)
        probs = logits.detach().softmax(dim=1)
        self.memory[batch.index] = self.decay * self.memory[batch.index] + 0.1 * probs
        with torch.no_grad():
            self.offsets[batch.index] += 0.01 * noise
        return Step(batch.index, noise, losses.detach().mean(), probs)


def flat(state: Any) -> list[Tensor]:
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, dict):
        return [tensor for value in state.values() for tensor in flat(value)]
    return []


def test_networks_tables_and_generators_are_the_state() -> None:
    method = Remembering()
    method.setup(problem())
    assert set(method.state_dict()) == {"learner", "peer", "memory", "offsets", "generator"}
    assert method.learners() == [method.learner, method.peer]


def test_a_restored_method_goes_on_to_the_bit() -> None:
    whole = Remembering()
    whole.setup(problem())
    for seed in range(3):
        whole.step(batch(seed))
    state = through_a_file(whole.state_dict())
    resumed = Remembering()
    resumed.setup(problem(seed=1))
    resumed.load_state_dict(state)
    for seed in range(3, 6):
        assert whole.step(batch(seed)).loss.equal(resumed.step(batch(seed)).loss)
    pairs = zip(flat(whole.state_dict()), flat(resumed.state_dict()), strict=True)
    assert all(one.equal(other) for one, other in pairs)


def test_methods_compare_and_print_by_their_hyper_parameters() -> None:
    one, other = Remembering(decay=0.5), Remembering(decay=0.5)
    one.setup(problem())
    assert one == other
    assert one != Remembering()
    assert "decay=0.5" in repr(one)
    assert "learner" not in repr(one)


class Alone(Method):
    """One network and nothing else."""


def test_predictions_are_probabilities() -> None:
    method = Alone()
    method.setup(problem())
    probs = method.predict(batch().inputs)
    assert not probs.requires_grad
    expected = method.learner.network(batch().inputs).detach().softmax(dim=1)
    assert torch.allclose(probs, expected)
    assert torch.allclose(probs.log(), method.log_probs(batch().inputs), atol=1e-6)


def test_two_networks_predict_the_mean_of_their_probabilities() -> None:
    method = Remembering()
    method.setup(problem())
    probs = method.predict(batch().inputs)
    each = [
        learner.network(batch().inputs).detach().softmax(dim=1)
        for learner in (method.learner, method.peer)
    ]
    assert not probs.requires_grad
    assert not torch.allclose(each[0], each[1], atol=0.01)
    assert torch.allclose(probs, (each[0] + each[1]) / 2)
    assert torch.allclose(method.log_probs(batch().inputs), probs.log(), atol=1e-6)


def test_the_mean_of_two_predictions_with_numbers() -> None:
    method = Remembering()
    method.setup(problem())
    for learner, probs in ((method.learner, [0.7, 0.2, 0.1]), (method.peer, [0.1, 0.8, 0.1])):
        with torch.no_grad():
            learner.parameters[0].zero_()
            learner.parameters[1].copy_(torch.tensor(probs).log())
    assert method.predict(torch.zeros(1, 4))[0].tolist() == pytest.approx([0.4, 0.5, 0.1])


def test_the_mean_of_two_predictions_does_not_underflow() -> None:
    method = Remembering()
    method.setup(problem())
    for learner in method.learners():
        with torch.no_grad():
            learner.parameters[0].zero_()
            learner.parameters[1].copy_(torch.tensor([500.0, 0.0, -500.0]))
    found = method.log_probs(torch.zeros(1, 4))[0]
    assert found.tolist() == pytest.approx([0.0, -500.0, -1000.0])


def test_opinions_are_the_prediction_of_every_network() -> None:
    one, two, inputs = Alone(), Remembering(), batch().inputs
    for method in (one, two):
        method.setup(problem())
    (only,) = one.opinions()
    assert only(inputs).equal(one.log_probs(inputs))
    first, second = two.opinions()
    assert first(inputs).equal(two.learner.log_probs(inputs))
    assert second(inputs).equal(two.peer.log_probs(inputs))
    assert not torch.allclose(first(inputs), two.log_probs(inputs), atol=0.01)


def test_a_method_that_predicts_by_itself_is_assessed_by_that() -> None:
    class Shifted(Alone):
        def log_probs(self, inputs: Tensor) -> Tensor:
            return super().log_probs(inputs).roll(1, dims=1)

    method = Shifted()
    method.setup(problem())
    (opinion,) = method.opinions()
    expected = method.learner.log_probs(batch().inputs).roll(1, dims=1)
    assert opinion(batch().inputs).equal(expected)


def test_the_validation_loss_is_cross_entropy_unless_a_method_says_otherwise() -> None:
    log_probs = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    loss = Method().validation_loss(log_probs, torch.tensor([0, 0]))
    expected = -torch.tensor([0.9, 0.2]).log().mean()
    assert float(loss) == pytest.approx(float(expected))


def test_a_method_without_a_step_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="Method must define step or epoch"):
        Method().step(batch())
    with pytest.raises(NotImplementedError, match="LossMethod must define losses"):
        LossMethod().losses(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))


def test_an_epoch_asks_for_the_views_that_the_method_declares() -> None:
    seen: list[int] = []

    class Two(Method):
        views = 2

        def step(self, batch: Batch) -> Step:
            seen.append(len(batch.views))
            return Step(batch.index, torch.ones(len(batch.index)), torch.tensor(0.0))

    inputs = torch.zeros(10, 3)
    train = Train(inputs, torch.arange(10) % 3, raw(inputs), batch_size=4, seed=0)
    steps = list(Two().epoch(train, number=0))
    assert seen == [2, 2, 2]
    assert sorted(torch.cat([step.index for step in steps]).tolist()) == list(range(10))


def test_a_loss_method_descends_on_the_mean_of_its_losses() -> None:
    class Squares(LossMethod):
        def losses(self, log_probs: Tensor, labels: Tensor) -> Tensor:
            given = log_probs.exp().gather(1, labels[:, None]).squeeze(1)
            return (1 - given).square()

    method, made = Squares(), batch()
    method.setup(problem())
    logits = method.learner.logits(made.inputs)
    expected = method.losses(logits.log_softmax(dim=1), made.labels).mean()
    gradients = torch.autograd.grad(expected, method.learner.parameters)
    step = method.step(made)
    assert float(step.loss) == pytest.approx(float(expected.detach()))
    assert step.weight.tolist() == [1.0] * 6
    assert step.probs is not None
    assert torch.allclose(step.probs, logits.detach().softmax(dim=1))
    for parameter, gradient in zip(method.learner.parameters, gradients, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient)
    log_probs = method.log_probs(made.inputs)
    own = method.losses(log_probs, made.labels).mean()
    assert method.validation_loss(log_probs, made.labels).equal(own)
