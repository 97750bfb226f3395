from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from labelnoise.errors import LabelNoiseError
from labelnoise.nets import NETS, auto, net_named


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("mlp", (1, 28, 28), 203_530),
        ("mlp", (64,), 64 * 256 + 256 + 256 * 10 + 10),
        ("lenet", (1, 28, 28), 61_706),
        # Convolutions 1,792 + 73,856 + 225,988 + 28,240; batch norm 808; dense 2,570.
        ("cnn", (3, 32, 32), 333_254),
    ],
)
def test_the_nets_have_the_papers_number_of_parameters(
    name: str, shape: tuple[int, ...], count: int
) -> None:
    assert parameters(net_named(name)(shape, 10)) == count


def as_printed(network: nn.Module) -> nn.Sequential:
    """The same network with every pooling after its ReLU, and nothing in place."""
    layers = list(copy.deepcopy(network).children())
    pooled = [place for place, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    for place in pooled:
        layers[place], layers[place + 1] = layers[place + 1], layers[place]
    for layer in layers:
        if isinstance(layer, nn.ReLU):
            layer.inplace = False
    return nn.Sequential(*layers)


@pytest.mark.parametrize(("name", "shape"), [("cnn", (3, 16, 16)), ("lenet", (1, 16, 16))])
def test_pooling_before_relu_gives_the_same_numbers_to_the_bit(
    name: str, shape: tuple[int, ...]
) -> None:
    ours = net_named(name)(shape, 10)
    with torch.no_grad():
        for parameter in ours.parameters():  # so coarse that pooling meets many ties
            parameter.copy_((parameter * 16).round() / 16)
    printed = as_printed(ours)
    inputs = torch.randint(-2, 3, (32, *shape)).float()
    outputs = []
    for network in (ours, printed):
        outputs.append(network(inputs))
        outputs[-1].square().sum().backward()
    assert outputs[0].equal(outputs[1])
    for one, other in zip(ours.parameters(), printed.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert one.grad.equal(other.grad)


def test_the_cnn_is_the_papers_layer_by_layer() -> None:
    layers = list(as_printed(net_named("cnn")((3, 32, 32), 10)))
    block = ["Conv2d", "BatchNorm2d", "ReLU"]
    names = [type(layer).__name__ for layer in layers]
    pool = ["MaxPool2d"]
    assert names == [*block, *pool, *block, *pool, *block, *block, *pool, "Flatten", "Linear"]
    convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in convolutions] == [64, 128, 196, 16]
    assert {layer.kernel_size for layer in convolutions} == {(3, 3)}
    assert {layer.padding for layer in convolutions} == {(1, 1)}
    assert {layer.stride for layer in convolutions} == {(1, 1)}
    assert layers[-1].in_features == 256


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mlp", (7,)),
        ("mlp", (1, 28, 28)),
        ("mlp", (3, 5, 4)),
        ("cnn", (3, 32, 32)),
        ("cnn", (1, 28, 28)),
        ("cnn", (3, 8, 8)),
        ("cnn", (4, 33, 47)),
        ("lenet", (1, 28, 28)),
        ("lenet", (3, 32, 32)),
        ("lenet", (1, 12, 12)),
        ("lenet", (2, 13, 30)),
    ],
)
def test_inputs_of_any_fitting_shape_become_one_logit_a_class(
    name: str, shape: tuple[int, ...], classes: int
) -> None:
    network = net_named(name)(shape, classes)
    assert network(torch.zeros(3, *shape)).shape == (3, classes)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cnn", (3, 7, 32)),
        ("cnn", (3, 32, 7)),
        ("cnn", (64,)),
        ("lenet", (1, 8, 8)),
        ("lenet", (1, 11, 40)),
        ("lenet", (28, 28)),
    ],
)
def test_inputs_too_small_for_convolutions_are_sent_to_the_mlp(
    name: str, shape: tuple[int, ...]
) -> None:
    with pytest.raises(LabelNoiseError, match=f"{name!r} needs images.*use --net mlp"):
        net_named(name)(shape, 10)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((1, 28, 28), "mlp"),
        ((1, 8, 8), "mlp"),
        ((64,), "mlp"),
        ((3, 8, 8), "mlp"),
        ((3, 32, 32), "cnn"),
        ((3, 64, 48), "cnn"),
        ((1, 32, 32), "cnn"),
        ((1, 32, 28), "mlp"),
    ],
)
def test_auto_takes_the_cnn_for_photographs(shape: tuple[int, ...], name: str) -> None:
    assert auto(shape) == name
    assert net_named(name)(shape, 3)(torch.zeros(2, *shape)).shape == (2, 3)


def test_every_net_has_a_line_that_explains_it() -> None:
    assert {"mlp", "cnn", "lenet"} <= set(NETS)
    assert all(net.explains for net in NETS.values())


@pytest.mark.parametrize(("wrong", "right"), [("cn", "cnn"), ("lenett", "lenet"), ("mpl", "mlp")])
def test_a_wrong_name_suggests_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(LabelNoiseError, match=f"did you mean '{right}'"):
        net_named(wrong)


# --- the user's own -------------------------------------------------------------------------------

OWN = """
from torch import nn

number = 3

def small(shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_classes))
"""


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a user with a package of their own."""
    (tmp_path / "ownpackage").mkdir()
    (tmp_path / "ownpackage" / "nets.py").write_text(OWN)
    (tmp_path / "ownscript.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("ownpackage", "ownpackage.nets", "ownscript"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("address", ["ownpackage.nets:small", "ownscript:small"])
def test_a_net_of_ones_own_is_found_from_the_working_directory(address: str) -> None:
    network = net_named(address)((1, 5, 5), 4)
    assert network(torch.zeros(2, 1, 5, 5)).shape == (2, 4)


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    "address",
    [
        "ownscript:large",
        "ownscript:",
        "ownscript:number",
        "nosuchmodule:small",
        "ownpackage.missing:small",
        ":small",
        ".ownscript:small",
    ],
)
def test_an_address_that_leads_nowhere_is_named(address: str) -> None:
    with pytest.raises(LabelNoiseError, match="net") as raised:
        net_named(address)
    assert repr(address) in str(raised.value)
