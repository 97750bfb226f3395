"""From a list of image files to inputs of one size, in memory or not, without the unreadable ones.

The size is that of the files if they all have the same and it is at most 32 pixels a side; else
32x32. The default net, which the paper made for 32x32, takes six times as long for 64x64 and does
not see further. Images are grey if every file is, else they have three channels.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from labelnoise.data.ahead import ahead
from labelnoise.data.dataset import Known
from labelnoise.data.images import Form, Look, Unreadable, look
from labelnoise.data.memory import room
from labelnoise.data.stored import FEW, Files, Inputs, Names
from labelnoise.data.tree import text
from labelnoise.errors import LabelNoiseError

SIDE = 32  # of the square that images of other sizes become
CHUNK = 256  # files that a worker reads at a time
SHOWN = 3  # unreadable files that a warning names


@dataclass(frozen=True)
class Collected:
    """Images that could be read.

    Attributes:
        inputs: (rows, channels, height, width) bytes.
        rows: (rows,) where each stood among the files.
        faults: The files that could not be read, and why.
        total: How many files there were; one that is named twice counts twice.
    """

    inputs: Inputs
    rows: Tensor
    faults: Mapping[str, str]
    total: int


def collect(
    root: str, names: Sequence[str], form: Form | None = None, memory: int | None = None
) -> Collected:
    """Decode every file once, to keep the pixels or to learn that it can be read.

    Args:
        root: The folder that names are relative to.
        names: The files.
        form: Channels, height and width; by default what suits the files.
        memory: Bytes of pixels that may lie in memory; by default a quarter of what is free. More
            are decoded again whenever they are needed.
    """
    kept = Names(names)
    if form is None:
        form = survey(root, kept)
    files = Files(root, kept, torch.arange(len(kept)), form)
    fits = files.numel() <= (room() if memory is None else memory)
    pixels = torch.empty(files.shape if fits else (0,), dtype=torch.uint8)
    readable = torch.ones(len(kept), dtype=torch.bool)
    faults: dict[str, str] = {}
    chunks = torch.split(files.rows, CHUNK)
    for chunk, (decoded, wrong) in zip(chunks, files.decoded(chunks), strict=True):
        if fits:
            pixels[chunk] = torch.from_numpy(decoded)
        if wrong:
            faults |= {kept[row]: why for row, why in wrong.items()}
            readable[list(wrong)] = False
    rows = files.rows[readable]
    if faults and not len(rows):
        raise LabelNoiseError(f"none of {len(kept)} images can be read: {_some(faults)}")
    if fits:
        return Collected(pixels[rows] if faults else pixels, rows, faults, len(kept))
    return Collected(cast(Inputs, files[rows]), rows, faults, len(kept))


def survey(root: str, names: Names) -> Form:
    """Channels, height and width that suit all files, by their headers."""
    count = -(-len(names) // CHUNK)
    workers = 0 if len(names) <= FEW else None
    looks = {found for part in ahead(_Survey(root, names), count, workers) for found in part}
    channels = 1 if looks and all(found.grey for found in looks) else 3
    sizes = {(found.height, found.width) for found in looks}
    if len(sizes) == 1:
        height, width = sizes.pop()
        if max(height, width) <= SIDE:
            return channels, height, width
    return channels, SIDE, SIDE


def form_of(known: Known, data: str) -> Form:
    """The form of the images that a model was trained on."""
    kind = "image" if known.encoding is None else known.encoding["kind"]
    if kind != "image" or len(known.shape) != 3 or known.shape[0] not in {1, 3}:
        raise LabelNoiseError(f"{data} holds images, but the run was not trained on images")
    channels, height, width = known.shape
    return channels, height, width


def tell(data: Path, found: Collected) -> None:
    """Say how many files cannot be read, and name the first of them."""
    if found.faults:
        left = found.total - len(found.rows)
        warnings.warn(
            f"{data}: {left} of {found.total} images cannot be read and are left out: "
            f"{_some(found.faults)}",
            stacklevel=3,
        )


def _some(faults: Mapping[str, str]) -> str:
    first = [f"{text(name)!r} ({why})" for name, why in list(faults.items())[:SHOWN]]
    return ", ".join(first) + ", ..." * (len(faults) > SHOWN)


@dataclass(frozen=True)
class _Survey:
    """What a worker does: the different looks among some files, unreadable ones aside."""

    root: str
    names: Names

    def __call__(self, number: int) -> set[Look]:
        found = set()
        for row in range(number * CHUNK, min((number + 1) * CHUNK, len(self.names))):
            with suppress(Unreadable):
                found.add(look(os.path.join(self.root, self.names[row])))
        return found
