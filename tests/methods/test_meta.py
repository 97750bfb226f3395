"""What holds of every method that learns from a trusted set."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from labelnoise import LabelNoiseError, Method
from labelnoise.methods.meta_net import MetaNet
from labelnoise.methods.meta_ren import MetaRen

from .meta import CLASSES, TwoHeads, batch, mlp, problem, trusted_train, with_norm
from .small import set_up, small_problem

METHODS = {"Meta-Ren": MetaRen(), "Meta-Net": MetaNet(inner_lr=3.0)}


@pytest.fixture(params=METHODS)
def title(request: pytest.FixtureRequest) -> str:
    """What one of them is called."""
    found: str = request.param
    return found


@pytest.fixture
def method(title: str) -> Method:
    """That one before its setup."""
    return copy.deepcopy(METHODS[title])


def statistics(module: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def test_running_statistics_move_once_a_step_and_by_the_training_batch_alone(
    method: Method,
) -> None:
    found = []
    for seed in (99, 7):  # another trusted set, the same statistics
        each = set_up(copy.deepcopy(method), problem(with_norm, trusted_train(seed)))
        (learner,) = each.learners()
        alone = copy.deepcopy(learner.network).train()
        for number in range(3):
            made = batch(number)
            alone.load_state_dict(learner.network.state_dict())
            alone(made.inputs)
            each.step(made)
            now, expected = statistics(learner.network), statistics(alone)
            assert len(now) == 3
            assert all(now[name].equal(expected[name]) for name in expected)
            assert int(now["2.num_batches_tracked"]) == number + 1
            if number == 0:
                found.append(now)
    assert all(found[0][name].equal(found[1][name]) for name in found[0])


def test_it_wants_a_trusted_set_and_says_so(method: Method, title: str) -> None:
    assert type(method).needs_trusted
    with pytest.raises(LabelNoiseError, match=f"{title} needs a trusted set: pass --trusted FILE"):
        method.setup(small_problem(mlp, CLASSES))


def test_a_network_with_a_part_that_it_does_not_use_can_be_trained(method: Method) -> None:
    """As it can by every other method: a second head, say."""
    assert set_up(method, problem(TwoHeads)).step(batch()).loss.isfinite()


def test_the_step_carries_no_graph(method: Method) -> None:
    step = set_up(method, problem(mlp)).step(batch())
    assert step.probs is not None
    expected = mlp()(batch().inputs).detach().softmax(dim=1)
    assert torch.allclose(step.probs, expected, rtol=0, atol=1e-12)
    for tensor in (step.weight, step.loss, step.probs):
        assert not tensor.requires_grad
