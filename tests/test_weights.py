"""Weights from files: what fits, what is left as initialised, what is refused."""

from __future__ import annotations

import os
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
def pretrained() -> State:
    """A state dict of the naming and shape of torchvision's ResNet-18."""
    return dict(network(classes=1000, seed=0).state_dict())


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
    assert_is_all_but_the_classifier(found, pretrained)
    assert found["fc.weight"].equal(fresh)


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


@pytest.mark.parametrize(
    "found", [Malicious(), {"conv1.weight": Malicious()}, {"model": Malicious()}]
)
def test_a_pickle_that_would_run_something_is_refused(
    found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabelNoiseError, match="holds more than tensors"):
        Weights.read(saved(found, tmp_path / "weights.pth"))
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
