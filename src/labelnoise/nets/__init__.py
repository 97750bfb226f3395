"""Networks by name: each is a function (input shape, classes) -> module.

The user's own net is named `package.module:name`; it is called like ours and gives a module that
takes (batch, *shape) and returns (batch, classes) logits.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import nn

from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.nets.cnn import cnn
from labelnoise.nets.lenet import lenet
from labelnoise.nets.mlp import mlp

Build = Callable[[Sequence[int], int], nn.Module]


class Net(NamedTuple):
    """A network's builder and the line that explains it."""

    build: Build
    explains: str


NETS = {
    "mlp": Net(mlp, "one hidden layer of 256 units; the paper's net for MNIST"),
    "cnn": Net(cnn, "four 3x3 convolutions with batch norm; the paper's net for CIFAR-10"),
    "lenet": Net(lenet, "LeNet-5 with ReLU and max pooling"),
}


def auto(shape: Sequence[int]) -> str:
    """The name of the net that suits inputs of this shape."""
    colour_image = len(shape) == 3 and shape[0] >= 3 and min(shape[1:]) >= 16
    return "cnn" if colour_image else "mlp"


def net_named(name: str) -> Build:
    """The builder called `name`, ours or the user's `package.module:name`."""
    if ":" in name:
        return _imported(name)
    if name not in NETS:
        raise unknown("net", name, [*NETS, "auto", "package.module:name"])
    return NETS[name].build


def _imported(address: str) -> Build:
    module, _, attribute = address.partition(":")
    if os.getcwd() not in sys.path:  # a script's own folder is not on the path of a command
        sys.path.insert(0, os.getcwd())
    try:
        build: Build = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise LabelNoiseError(f"cannot import net {address!r}: {error}") from error
    if not callable(build):
        raise LabelNoiseError(f"net {address!r} is not a function (input shape, classes) -> module")
    return build
