"""Weights from files: what fits, what is left as initialised, what is refused."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labelnoise.errors import LabelNoiseError
from labelnoise.nets import net_named
from labelnoise.nets.weights import Weights, content

State = dict[str, Tensor]


def network(classes: int = 4, channels: int = 3, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return net_named("resnet18")((channels, 16, 16), classes)


@pytest.fixture(scope="module")
def pretrained(torchvision_state: Callable[[str], State]) -> State:
    """A state dict of the naming and shape of torchvision's ResNet-18."""
    return torchvision_state("resnet18")


def saved(found: Any, path: Path) -> Path:
    torch.save(found, path)
    return path


def loaded(path: Path, into: nn.Module) -> State:
    return dict(Weights.read(path).into(into).state_dict())


def assert_is_all_but_the_classifier(found: State, pretrained: State) -> None:
    for name, value in pretrained.items():
        assert found[name].equal(value) or name.startswith("fc."), name


def without_counters(state: State) -> State:
    """As torchvision's own files are: they are older than these counters."""
    return {name: value for name, value in state.items() if "num_batches" not in name}


def without_first(state: State) -> State:
    """All but the layer that knows of colours."""
    return {name: value for name, value in state.items() if name != "conv1.weight"}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 90},
        lambda state: {"model": state, "optimizer": {}},
        lambda state: {f"module.{name}": value for name, value in state.items()},
        lambda state: {"state_dict": {f"module.{name}": v for name, v in state.items()}},
        without_counters,
    ],
    ids=["plain", "state_dict", "model", "prefix", "both", "torchvision"],
)
def test_a_pth_file_fills_all_but_the_classifier(
    wrap: Any, pretrained: State, tmp_path: Path
) -> None:
    fresh = network().state_dict()["fc.weight"].clone()
    found = loaded(saved(wrap(pretrained), tmp_path / "weights.pth"), network())
    assert_is_all_but_the_classifier(found, without_counters(pretrained))
    assert found["fc.weight"].equal(fresh)


@pytest.mark.parametrize("name", ["resnet34", "resnet50"])
def test_the_deeper_ones_fit_too(name: str, torchvision_state: Callable[[str], State]) -> None:
    state = torchvision_state(name)
    network = net_named(name)((3, 64, 64), 14)
    found = Weights(Path("weights.pth"), state).into(network).state_dict()
    assert found["fc.weight"].shape == (14, state["fc.weight"].shape[1])
    assert_is_all_but_the_classifier(dict(found), state)


def test_every_entry_is_missed_and_measured(torchvision_state: Callable[[str], State]) -> None:
    """One after the other, each of the 265 that count."""
    state = torchvision_state("resnet50")
    network = net_named("resnet50")((3, 64, 64), 14)
    counted = [name for name in without_counters(state) if not name.startswith("fc.")]
    assert len(counted) == 265
    for name in counted:
        short = {key: value for key, value in state.items() if key != name}
        with pytest.raises(LabelNoiseError, match=f"it lacks {re.escape(name)}: "):
            Weights(Path("weights.pth"), short).into(network)
        wrong = {**state, name: state[name][1:]}
        sizes = ["x".join(map(str, each.shape)) for each in (wrong[name], state[name])]
        told = f"{re.escape(name)} is {sizes[0]}, not {sizes[1]}: "
        with pytest.raises(LabelNoiseError, match=told):
            Weights(Path("weights.pth"), wrong).into(network)


@pytest.mark.parametrize("parameters", [False, True])
def test_a_file_of_older_days_is_the_same(
    parameters: bool, pretrained: State, tmp_path: Path
) -> None:
    """Before torch 1.6 files were no archives, and state dicts had parameters in them."""
    state = without_counters(pretrained)
    path = tmp_path / "weights.pth"
    old: Any = {n: nn.Parameter(v) for n, v in state.items()} if parameters else state
    torch.save(OrderedDict(old), path, _use_new_zipfile_serialization=False)
    assert not path.read_bytes().startswith(b"PK")
    assert_is_all_but_the_classifier(loaded(path, network()), state)
    assert_is_all_but_the_classifier(loaded(path, network(channels=1)), without_first(state))


def test_a_safetensors_file_is_the_same(pretrained: State, tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    path = tmp_path / "weights.safetensors"
    library.save_file({name: value.contiguous() for name, value in pretrained.items()}, path)
    assert_is_all_but_the_classifier(loaded(path, network()), pretrained)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(LabelNoiseError, match="cannot be read as weights"):
        Weights.read(path)


def test_a_classifier_of_the_same_size_is_taken(pretrained: State, tmp_path: Path) -> None:
    found = loaded(saved(pretrained, tmp_path / "weights.pth"), network(classes=1000))
    assert all(found[name].equal(value) for name, value in pretrained.items())


def test_a_file_without_a_classifier_will_do(pretrained: State, tmp_path: Path) -> None:
    headless = {name: value for name, value in pretrained.items() if not name.startswith("fc.")}
    found = loaded(saved(headless, tmp_path / "weights.pth"), network())
    assert_is_all_but_the_classifier(found, headless)


def test_grey_images_are_treated_as_three_equal_colours(pretrained: State, tmp_path: Path) -> None:
    path = saved(pretrained, tmp_path / "weights.pth")
    colour, grey = Weights.read(path).into(network()), Weights.read(path).into(network(channels=1))
    images = torch.randn(3, 1, 16, 16)
    features = [nn.Sequential(*list(each.eval().children())[:-1]) for each in (colour, grey)]
    assert torch.allclose(features[0](images.expand(-1, 3, -1, -1)), features[1](images), atol=1e-4)


def test_weights_keep_the_order_in_memory_and_the_precision(
    pretrained: State, tmp_path: Path
) -> None:
    halved = {name: v.half() if v.is_floating_point() else v for name, v in pretrained.items()}
    found = loaded(saved(halved, tmp_path / "weights.pth"), network())
    weight = found["layer1.0.conv1.weight"]
    assert weight.dtype == torch.float32
    assert weight.is_contiguous(memory_format=torch.channels_last)


def test_two_networks_share_nothing_but_values(pretrained: State, tmp_path: Path) -> None:
    weights = Weights.read(saved(pretrained, tmp_path / "weights.pth"))
    one, other = weights.into(network(seed=1)), weights.into(network(seed=2))
    assert one.state_dict()["conv1.weight"].equal(other.state_dict()["conv1.weight"])
    assert not one.state_dict()["fc.weight"].equal(other.state_dict()["fc.weight"])
    with torch.no_grad():
        next(one.parameters()).zero_()
    assert other.state_dict()["conv1.weight"].equal(pretrained["conv1.weight"])


def test_what_does_not_fit_is_named(pretrained: State, tmp_path: Path) -> None:
    changed: dict[str, State] = {
        "it lacks bn1.weight, layer2.0.conv1.weight:": {
            name: value
            for name, value in pretrained.items()
            if name not in ("bn1.weight", "layer2.0.conv1.weight")
        },
        "it alone has bn1.scale:": {**pretrained, "bn1.scale": torch.zeros(1)},
        "conv1.weight is 64x3x3x3, not 64x3x7x7:": {
            **pretrained,
            "conv1.weight": torch.zeros(64, 3, 3, 3),
        },
        "it alone has layer1.2.conv1.weight, layer1.2.bn1.weight, layer1.2.bn1.bias and ": dict(
            net_named("resnet34")((3, 16, 16), 4).state_dict()
        ),
    }
    for message, state in changed.items():
        with pytest.raises(LabelNoiseError) as raised:
            loaded(saved(state, tmp_path / "weights.pth"), network())
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("was here",)


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize(
    "found", [Malicious(), {"conv1.weight": Malicious()}, {"model": Malicious()}]
)
def test_a_pickle_that_would_run_something_is_refused(
    found: Any, archive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(found, "weights.pth", _use_new_zipfile_serialization=archive)
    with pytest.raises(LabelNoiseError, match="holds more than tensors"):
        Weights.read(tmp_path / "weights.pth")
    assert not (tmp_path / "was here").exists()


@pytest.mark.parametrize("bytes_", [b"", b"not a pickle", b"PK\x03\x04 cut off"])
def test_a_damaged_file_is_named_on_one_line(bytes_: bytes, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(bytes_)
    with pytest.raises(LabelNoiseError, match=r"weights\.pth") as raised:
        Weights.read(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("found", [[], {}, torch.zeros(3), {"a": 1}, {1: torch.zeros(1)}])
def test_what_is_no_state_dict_is_refused(found: Any, tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="no state dict"):
        Weights.read(saved(found, tmp_path / "weights.pt"))


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"ends in \.pth, \.pt, \.safetensors"):
        Weights.read(tmp_path / "weights.onnx")


def test_the_content_follows_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(b"one")
    one = content(path)
    path.write_bytes(b"two")
    assert content(path) != one
    assert content(None) == b""
