"""Residual networks against the published architecture, written as loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from labelnoise.errors import LabelNoiseError
from labelnoise.learner import Learner, Recipe
from labelnoise.nets import net_named
from labelnoise.passes import Passes

BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
COUNTS = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032}
ENTRIES = {"resnet18": 122, "resnet34": 218, "resnet50": 320}


@pytest.mark.parametrize("name", COUNTS)
def test_names_and_shapes_are_torchvisions(
    name: str, torchvision_shapes: Callable[[str], dict[str, tuple[int, ...]]]
) -> None:
    theirs = torchvision_shapes(name)
    counted = {key: shape for key, shape in theirs.items() if not key.endswith(BUFFERS)}
    assert len(theirs) == ENTRIES[name]
    assert sum(map(math.prod, counted.values())) == COUNTS[name]
    network = net_named(name)((3, 224, 224), 1000)
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert shapes == theirs
    assert list(shapes) == list(theirs)
    assert sum(p.numel() for p in network.parameters()) == COUNTS[name]


def strided(network: nn.Module) -> dict[str, int]:
    return {
        name: layer.stride[0]
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Conv2d) and layer.stride != (1, 1)
    }


@pytest.mark.parametrize(("name", "halves"), [("resnet18", "conv1"), ("resnet50", "conv2")])
def test_images_are_halved_in_the_first_3x3_of_a_stage(name: str, halves: str) -> None:
    stages = [f"layer{number}.0" for number in (2, 3, 4)]
    expected = {f"{stage}.{part}": 2 for stage in stages for part in (halves, "downsample.0")}
    assert strided(net_named(name)((3, 64, 64), 2)) == {"conv1": 2, **expected}


def by_hand(state: dict[str, torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """ResNet-18 in evaluation mode, from its state dict and nothing else."""
    functional = nn.functional

    def normed(values: torch.Tensor, name: str) -> torch.Tensor:
        mean, var, weight, bias = (
            state[f"{name}.{part}"][None, :, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (values - mean) / (var + 1e-5).sqrt() * weight + bias

    out = functional.conv2d(images, state["conv1.weight"], stride=2, padding=3)
    out = functional.max_pool2d(normed(out, "bn1").relu(), 3, 2, 1)
    for stage in range(1, 5):
        for block in range(2):
            place, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            inner = functional.conv2d(out, state[f"{place}.conv1.weight"], None, stride, 1)
            inner = normed(inner, f"{place}.bn1").relu()
            inner = functional.conv2d(inner, state[f"{place}.conv2.weight"], None, 1, 1)
            inner = normed(inner, f"{place}.bn2")
            if f"{place}.downsample.0.weight" in state:
                out = functional.conv2d(out, state[f"{place}.downsample.0.weight"], None, stride)
                out = normed(out, f"{place}.downsample.1")
            out = (inner + out).relu()
    return out.mean(dim=(2, 3)) @ state["fc.weight"].T + state["fc.bias"]


def test_the_forward_pass_is_the_papers() -> None:
    torch.manual_seed(0)
    network = net_named("resnet18")((3, 40, 48), 5).double()
    images = torch.randn(4, 3, 40, 48, dtype=torch.float64)
    network(images)  # so that running statistics are not 0 and 1
    state = {key: value.detach() for key, value in network.state_dict().items()}
    assert torch.allclose(network.eval()(images), by_hand(state, images), atol=1e-9)


def test_convolutions_begin_with_the_deviation_that_keeps_gradients_alike() -> None:
    torch.manual_seed(0)
    network = net_named("resnet50")((3, 64, 64), 2)
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Conv2d) and layer.weight.numel() > 30_000:
            fan_out = layer.out_channels * layer.kernel_size[0] ** 2
            deviation = float(layer.weight.detach().std())
            assert deviation == pytest.approx((2 / fan_out) ** 0.5, rel=0.05), name


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 28, 28), (4, 33, 47)])
def test_small_images_and_other_channels_are_taken(shape: tuple[int, ...]) -> None:
    network = net_named("resnet18")(shape, 7)
    assert network(torch.zeros(3, *shape)).shape == (3, 7)


@pytest.mark.parametrize("shape", [(3, 7, 32), (64,)])
def test_inputs_that_are_no_images_or_too_small_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(LabelNoiseError, match=r"'resnet34' needs images.*use --net mlp"):
        net_named("resnet34")(shape, 10)


def test_all_samples_go_backward_through_so_many_batch_norms() -> None:
    learner = Learner(net_named("resnet18")((3, 8, 8), 3), Recipe())
    passes = Passes(learner, "auto")
    assert not passes.selects(torch.zeros(4, 3, 8, 8))


def test_only_what_counts_may_go_backward() -> None:
    learner = Learner(net_named("resnet18")((3, 8, 8), 3), Recipe(optimiser="sgd", lr=0.1))
    before = learner.network.state_dict()["fc.weight"].clone()
    passes = Passes(learner, "selected")
    log_probs = passes.look(torch.randn(6, 3, 8, 8))
    weight = torch.tensor([1.0, 0, 1, 0, 0, 1])
    passes.descend(-(log_probs[:, 0] * weight).sum() / 3, weight)
    assert not learner.network.state_dict()["fc.weight"].equal(before)
