"""Networks by name: each is a function (input shape, classes) -> module.

The user's own net is named `package.module:name`; it is called like ours and gives a module that
takes (batch, *shape) and returns (batch, classes) logits.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch
from torch import nn

from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.nets.cnn import cnn
from labelnoise.nets.lenet import lenet
from labelnoise.nets.mlp import mlp
from labelnoise.nets.resnet import resnet18, resnet34, resnet50

Build = Callable[[Sequence[int], int], nn.Module]


class Net(NamedTuple):
    """A network's builder, the line that explains it, and where to get weights for it."""

    build: Build
    explains: str
    weights: str = ""


TORCHVISION = "https://download.pytorch.org/models/"

NETS = {
    "mlp": Net(mlp, "one hidden layer of 256 units; the paper's net for MNIST"),
    "cnn": Net(cnn, "four 3x3 convolutions with batch norm; the paper's net for CIFAR-10"),
    "lenet": Net(lenet, "LeNet-5 with ReLU and max pooling"),
    "resnet18": Net(
        resnet18, "residual, 18 layers; takes --weights", f"{TORCHVISION}resnet18-f37072fd.pth"
    ),
    "resnet34": Net(
        resnet34, "residual, 34 layers; takes --weights", f"{TORCHVISION}resnet34-b627a593.pth"
    ),
    "resnet50": Net(
        resnet50,
        "residual, 50 layers; takes --weights; the paper's net for Clothing-1M and Food-101N",
        f"{TORCHVISION}resnet50-0676ba61.pth",
    ),
}


def auto(shape: Sequence[int]) -> str:
    """The name of the net that suits inputs of this shape."""
    if len(shape) != 3:
        return "mlp"
    # The paper's choices are the MLP for MNIST and the CNN for CIFAR-10; grey photographs are like
    # the latter (CIFAR-10 in grey, 6,000 rows, symmetric 0.3: CNN 51 % after 4 epochs, MLP 33 %).
    smallest = 16 if shape[0] >= 3 else 32
    return "cnn" if min(shape[1:]) >= smallest else "mlp"


def net_named(name: str) -> Build:
    """The builder called `name`, ours or the user's `package.module:name`."""
    if ":" in name:
        return _imported(name)
    if name not in NETS:
        raise unknown("net", name, [*NETS, "auto", "package.module:name"])
    return NETS[name].build


def content(name: str) -> bytes:
    """The source of the user's own net, which may change under the same name; of ours, nothing."""
    if ":" not in name:
        return b""
    file = inspect.getsourcefile(_module(name))
    return Path(file).read_bytes() if file else b""


def check(network: object, shape: Sequence[int], num_classes: int, name: str) -> nn.Module:
    """`network`, if it is one: a module that gives (batch, classes) for (batch, *shape)."""
    contract = f"net {name!r} must be a function (input shape, classes) -> torch module"
    if not isinstance(network, nn.Module):
        raise LabelNoiseError(f"{contract}: it gave a {type(network).__name__}")
    try:
        with torch.no_grad():
            found = tuple(network.eval()(torch.zeros(2, *shape)).shape)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        why = str(error).partition("\n")[0]
        raise LabelNoiseError(f"{contract} for inputs of shape {tuple(shape)}: {why}") from error
    if found != (2, num_classes):
        raise LabelNoiseError(
            f"{contract} with outputs of shape (batch, {num_classes}): two samples gave {found}"
        )
    return network.train()


def _imported(address: str) -> Build:
    try:
        build: Build = getattr(_module(address), address.partition(":")[2])
    except AttributeError as error:
        raise LabelNoiseError(f"cannot import net {address!r}: {error}") from error
    if not callable(build):
        raise LabelNoiseError(f"net {address!r} is not a function (input shape, classes) -> module")
    return build


def _module(address: str) -> ModuleType:
    if os.getcwd() not in sys.path:  # a script's own folder is not on the path of a command
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(address.partition(":")[0])
    except (ImportError, ValueError, TypeError) as error:
        raise LabelNoiseError(f"cannot import net {address!r}: {error}") from error
