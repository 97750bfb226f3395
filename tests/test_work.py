"""How much work a step is, in operators instead of seconds: a guard that no machine disturbs."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from labelnoise import Batch, Learner, Method, Problem
from labelnoise.learner import Recipe
from labelnoise.methods.bare import BARE
from labelnoise.methods.cce import CCE

ROWS, FEATURES, CLASSES = 128, 64, 10
WARM, STEPS = 1056, 32  # the rule `evidence` adds up 32 mini-batches at a time by then

# A step of each as it was measured, and room for a few operators more: each takes 2 to 8
# microseconds, of about 1,700 that a step of the MLP on MNIST takes.
BOUNDS = {"cce": 132, "batch": 166, "evidence": 222, "selected": 250}


def batches() -> list[Batch]:
    chance = torch.Generator().manual_seed(0)
    inputs = torch.randn(ROWS, FEATURES, generator=chance)
    labels = torch.randint(CLASSES, (ROWS,), generator=chance)
    return [Batch((inputs,), labels, torch.arange(ROWS), time=0.0)]


def new_learner() -> Learner:
    torch.manual_seed(0)
    layers = nn.Linear(FEATURES, 32), nn.ReLU(inplace=True), nn.Linear(32, CLASSES)
    return Learner(nn.Sequential(*layers), Recipe())


def set_up(method: Method, labels: Tensor) -> Method:
    method.setup(Problem(labels, CLASSES, new_learner, torch.Generator()))
    return method


def operators(method: Method, warm: int = WARM) -> Counter[str]:
    """Calls of operators in `STEPS` steps, those that other operators call among them."""
    (batch,) = batches()
    set_up(method, batch.labels)
    for _ in range(warm):
        method.step(batch)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(STEPS):
            method.step(batch)
    return Counter({e.key: e.count for e in seen.key_averages() if e.key.startswith("aten::")})


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("cce", CCE()),
        ("batch", BARE(threshold="batch")),
        ("evidence", BARE(threshold="evidence")),
        ("selected", BARE(threshold="batch", backward="selected")),
    ],
)
def test_a_step_is_no_more_operators_than_it_was(name: str, method: Method) -> None:
    assert operators(method).total() / STEPS <= BOUNDS[name]


def test_leaving_samples_out_saves_their_share_of_the_products() -> None:
    (batch,) = batches()
    products = {}
    for backward in ("full", "selected"):
        method = set_up(BARE(threshold="batch", backward=backward), batch.labels)
        with FlopCounterMode(display=False) as counter:
            step = method.step(batch)
        products[backward] = counter.get_total_flops()
    fraction = float((step.weight > 0).float().mean())
    first, second = 2 * ROWS * FEATURES * 32, 2 * ROWS * 32 * CLASSES
    forward, backward_pass = first + second, first + 2 * second
    assert products["full"] == forward + backward_pass
    assert products["selected"] == pytest.approx(forward + fraction * backward_pass)
    assert 0 < fraction < 0.5


def test_choosing_samples_never_asks_the_host() -> None:
    plain = operators(CCE(), warm=1)  # Adam reads its own counts, on a CPU
    ours = operators(BARE(threshold="batch"), warm=1)
    for asking in ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"):
        assert ours[asking] == plain[asking], asking
