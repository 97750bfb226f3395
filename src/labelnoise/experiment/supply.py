"""What a method is told besides the given labels: the noise rate and a trusted set.

What it needs is declared by the method: `needs_trusted`, and a field `noise_rate` that may be
`None`. Where the truth is known (planted noise, a benchmark) both are supplied without being asked
for; on one's own labels a missing one is an error that says what to pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from labelnoise.data import is_own, read_rows
from labelnoise.data.dataset import Dataset
from labelnoise.data.stored import Inputs
from labelnoise.data.train import Train
from labelnoise.errors import LabelNoiseError, noise_rate_lies_in_range
from labelnoise.experiment.parts import Noisy
from labelnoise.experiment.spec import method_fields
from labelnoise.methods import method_named
from labelnoise.noise import Noise
from labelnoise.problem import no_rate, no_trusted
from labelnoise.seeds import stream

RATES = ("true", "nominal", "auto")
VALIDATION, FILE = "validation", "file"


def needs_rate(method: str) -> bool:
    """Whether the method called `method` has a use for a noise rate."""
    return any(field.name == "noise_rate" for field in method_fields(method))


def needs_trusted(method: str) -> bool:
    """Whether the method called `method` needs a trusted set."""
    return method_named(method).needs_trusted


def rate_source(
    asked: float | str | None, method: str, noise: Noise, *, known: bool, told: bool
) -> float | str | None:
    """Where a method's noise rate comes from: a number, `"true"`, `"auto"`, or nowhere.

    Args:
        asked: What the user asked for; `None` is the best there is.
        method: A method's name.
        noise: What is planted.
        known: Whether the true labels are known.
        told: Whether the method's own field says it already.
    """
    if not needs_rate(method):
        if asked is not None:
            raise LabelNoiseError(f"method {method!r} takes no noise rate: leave --noise-rate out")
        return None
    if told and asked is not None:
        raise LabelNoiseError("the noise rate is given twice: leave out --noise-rate or --set")
    if asked is None:
        if not (known or told):
            raise no_rate(f"method {method!r}")
        return None if told else "true"
    if asked == "true" and not known:
        raise LabelNoiseError(
            "the true noise rate of these labels is not known: pass --noise-rate R or auto"
        )
    if asked == "nominal":
        if noise.rate is None:
            raise LabelNoiseError(f"noise {noise.text!r} has no nominal rate: pass --noise-rate R")
        return noise.rate
    if isinstance(asked, str) and asked not in RATES:
        raise LabelNoiseError(f"a noise rate is a number or {', '.join(RATES)}, got {asked!r}")
    if not isinstance(asked, str):
        noise_rate_lies_in_range(asked)
    return asked


def trusted_source(asked: int | str | None, method: str, *, known: bool) -> str | None:
    """Where a method's trusted set comes from: a file, or rows of the validation part."""
    if not needs_trusted(method):
        if asked is not None:
            raise LabelNoiseError(f"method {method!r} takes no trusted set: leave --trusted out")
        return None
    if asked is None:
        if not known:
            raise no_trusted(f"method {method!r}")
        return VALIDATION
    try:
        count = int(asked)
    except ValueError:
        return f"{FILE}:{asked}"
    if count < 1:
        raise LabelNoiseError(f"a trusted set has at least one sample, got --trusted {asked}")
    return f"{VALIDATION}:{count}"


@dataclass(frozen=True)
class Supply:
    """What was found for a method.

    Attributes:
        inputs: (rows, ...) of the trusted set, as stored; None where there is none.
        labels: (rows,) its verified labels.
        validation: (rows,) labels of the validation part, those that are trusted put right.
    """

    inputs: Inputs | None
    labels: Tensor | None
    validation: Tensor

    @property
    def rows(self) -> int:
        """How many samples are trusted."""
        return 0 if self.labels is None else len(self.labels)

    def as_train(self, like: Train) -> Train | None:
        """The trusted set, scaled and augmented like the training part."""
        if self.inputs is None or self.labels is None:
            return None
        device = like.labels.device
        return replace(like, inputs=self.inputs.to(device), labels=self.labels.to(device))


def content_of(source: str | None) -> bytes:
    """The bytes of a trusted file, which may change under the same name."""
    kind, _, name = (source or "").partition(":")
    path = Path(name).expanduser()
    return path.read_bytes() if kind == FILE and path.is_file() else b""


def trusted_set(source: str | None, dataset: Dataset, part: Noisy, data_seed: int) -> Supply:
    """The trusted set from its source; `part` is the validation part."""
    if source is None:
        return Supply(None, None, part.given)
    kind, _, which = source.partition(":")
    if kind == FILE:
        inputs, labels = _from_file(which, dataset)
        return Supply(inputs, labels, part.given)
    size = int(which) if which else len(part.given)
    if size > len(part.given):
        raise LabelNoiseError(
            f"the validation part has {len(part.given)} rows: pass --trusted {len(part.given)} or "
            "less, or --trusted FILE"
        )
    order = torch.randperm(len(part.given), generator=stream(data_seed, "trusted"))
    rows = order[:size].sort().values
    right = part.given if part.truth is None else part.truth
    validation = part.given.clone()
    validation[rows] = right[rows]
    return Supply(part.inputs[rows], right[rows], validation)


def _from_file(source: str, dataset: Dataset) -> tuple[Inputs, Tensor]:
    path = Path(source).expanduser()
    if not (path.is_file() and is_own(source)):
        raise LabelNoiseError(
            f"--trusted takes a number or a file like the data's, {source} is neither"
        )
    inputs, labels, _ = read_rows(path, dataset.known)
    if labels is None:
        raise LabelNoiseError(f"{source} has no labels: a trusted set needs them")
    inputs, labels = inputs[labels >= 0], labels[labels >= 0]
    if inputs.shape[1:] != dataset.inputs.shape[1:] or inputs.dtype != dataset.inputs.dtype:
        raise LabelNoiseError(
            f"{source} holds {inputs.dtype} of shape {tuple(inputs.shape[1:])}, {dataset.name} "
            f"{dataset.inputs.dtype} of shape {tuple(dataset.inputs.shape[1:])}: a trusted set "
            "looks like the data"
        )
    return inputs, labels
