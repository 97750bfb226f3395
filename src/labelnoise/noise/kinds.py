"""The kinds of noise by the word that asks for them: `symmetric:0.5`, `matrix:FILE`, `none`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.noise import transition
from labelnoise.noise.corrupt import corrupt
from labelnoise.noise.instance import instance_dependent

if TYPE_CHECKING:
    from labelnoise.data.stored import Inputs


@dataclass(frozen=True)
class Setting:
    """What a noise may look at when it draws the given labels."""

    truth: Tensor
    num_classes: int
    inputs: Inputs
    flips: Mapping[int, int] | None
    generator: torch.Generator
    rule: torch.Generator


Draw = Callable[[Setting], Tensor]
"""True labels and their setting in, given labels out."""


@dataclass(frozen=True)
class Noise:
    """A noise that was asked for, ready to be planted.

    Attributes:
        text: What asks for it, in its canonical form: equal noises have equal texts.
        rate: The nominal rate; None if the noise has no single one.
        planted: Whether it changes labels at all.
        draw: How it draws the given labels.
        content: What the text only points to: the numbers of a matrix from a file, which may
            change under the same name.
    """

    text: str
    rate: float | None
    planted: bool
    draw: Draw = field(repr=False, compare=False)
    content: bytes = field(default=b"", repr=False)

    def plant(
        self,
        truth: Tensor,
        *,
        num_classes: int,
        inputs: Inputs,
        flips: Mapping[int, int] | None,
        generator: torch.Generator,
        rule: torch.Generator | None = None,
    ) -> Tensor:
        """Draw given labels from the true ones.

        Args:
            truth: (rows,) true labels.
            num_classes: How many classes there are.
            inputs: (rows, ...) what instance-dependent noise looks at.
            flips: The data set's class-conditional map, if it has one.
            generator: What decides about each sample.
            rule: What the parts of one data set share, such as the projections of instance noise;
                by default the generator goes on with it.

        Returns:
            (rows,) int64 given labels, never the tensor that came in.
        """
        return self.draw(Setting(truth, num_classes, inputs, flips, generator, rule or generator))


@dataclass(frozen=True)
class Kind:
    """One kind of noise.

    Attributes:
        name: The word before the colon.
        usage: How it is written.
        explains: One line about what it does.
        read: Makes the noise from the kind's name and what follows the colon.
    """

    name: str
    usage: str
    explains: str
    read: Callable[[str, str], Noise] = field(repr=False, compare=False)


def parse(text: str) -> Noise:
    """Turn a text such as `symmetric:0.5` into the noise it asks for; a matrix is read at once."""
    name, _, argument = text.strip().partition(":")
    if name not in KINDS:
        raise unknown("noise", name, KINDS)
    return KINDS[name].read(name, argument)


def _read_none(name: str, argument: str) -> Noise:
    if argument:
        raise LabelNoiseError(f"{name} takes no rate: write {name}, not {f'{name}:{argument}'!r}")
    return Noise(name, rate=None, planted=False, draw=_keep)


def _read_rate(draw: Callable[[float, Setting], Tensor], name: str, argument: str) -> Noise:
    """A noise whose argument is its rate, drawn by `draw`."""
    try:
        rate = float(argument)
        transition.check_rate(rate)
    except ValueError:
        got = f", not {argument!r}" if argument else ""
        raise LabelNoiseError(f"{name} needs a rate in [0, 1]: {name}:0.3{got}") from None
    rate += 0.0  # -0.0 and 0.0 are one rate, and have one text
    text = f"{name}:{repr(rate).removesuffix('.0')}"
    return Noise(text, rate=rate, planted=True, draw=partial(draw, rate))


def _read_matrix(name: str, argument: str) -> Noise:
    choices = ", ".join(f"{name}:{known}" for known in transition.NAMED)
    if not argument:
        raise LabelNoiseError(f"{name} needs a file or a known matrix: {name}:FILE, {choices}")
    content = b""
    if argument in transition.NAMED:
        matrix = transition.named(argument)
    elif "." not in argument and not os.path.exists(argument):
        raise unknown("matrix", argument, transition.NAMED)  # a name, misspelt, rather than a file
    else:
        matrix = transition.read_matrix(argument)
        content = matrix.numpy().tobytes()
    draw = partial(_by_transition, matrix)
    return Noise(f"{name}:{argument}", rate=None, planted=True, draw=draw, content=content)


def _keep(setting: Setting) -> Tensor:
    return setting.truth.to(torch.int64, copy=True)


def _by_transition(matrix: Tensor, setting: Setting) -> Tensor:
    transition.check(matrix, setting.num_classes)
    return corrupt(setting.truth, matrix, setting.generator, per_sample=False)


def _by_class(build: Callable[[float, int], Tensor], rate: float, setting: Setting) -> Tensor:
    return _by_transition(build(rate, setting.num_classes), setting)


def _by_flips(rate: float, setting: Setting) -> Tensor:
    if setting.flips is None:
        raise LabelNoiseError(
            "class-conditional noise needs to know which classes are confused, and this data set "
            "has no published map: use pair:R or matrix:FILE"
        )
    matrix = transition.class_conditional(rate, setting.flips, setting.num_classes)
    return _by_transition(matrix, setting)


def _by_instance(rate: float, setting: Setting) -> Tensor:
    if not isinstance(setting.inputs, Tensor):
        raise LabelNoiseError(
            "instance noise looks at all inputs at once, and these do not fit in memory: "
            "take fewer (DATA:rows=N) or another noise"
        )
    probabilities = instance_dependent(
        rate,
        setting.num_classes,
        truth=setting.truth,
        inputs=setting.inputs,
        generator=setting.generator,
        rule=setting.rule,
    )
    return corrupt(setting.truth, probabilities, setting.generator, per_sample=True)


def _rate_kind(name: str, explains: str, draw: Callable[[float, Setting], Tensor]) -> Kind:
    return Kind(name, f"{name}:R", explains, partial(_read_rate, draw))


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("none", "none", "the labels as they are", _read_none),
        _rate_kind(
            "symmetric",
            "a fraction R of the labels becomes another class, all equally likely",
            partial(_by_class, transition.symmetric),
        ),
        _rate_kind(
            "symmetric-inclusive",
            "a fraction R of the labels is redrawn over all classes, the true one included",
            partial(_by_class, transition.symmetric_inclusive),
        ),
        _rate_kind(
            "class-conditional",
            "a fraction R of each confusable class becomes the class it is confused with",
            _by_flips,
        ),
        _rate_kind(
            "pair",
            "a fraction R of every class becomes the next class",
            partial(_by_class, transition.pair),
        ),
        _rate_kind(
            "instance",
            "about a fraction R of the labels changes, which ones and to what set by the inputs",
            _by_instance,
        ),
        Kind(
            "matrix",
            "matrix:FILE",
            "drawn from a transition matrix: a .npy, .csv, .txt or .json file, or "
            + " or ".join(transition.NAMED),
            _read_matrix,
        ),
    )
}
