"""Inputs that lie in memory, or in files that are decoded when they are needed.

Small inputs are one tensor. Large ones are `Files`, which looks like a tensor as far as readers,
splits and training ask: a length, a shape, rows to choose, a device to go to. Values come from
`fetch` (chosen rows) and `walk` (all of them), which treat both alike.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelnoise.data.ahead import ahead
from labelnoise.data.images import Form, Pixels, Unreadable, decode

FEW = 256  # files that are decoded sooner than worker processes start
PIECE = 256  # files of a chunk that one worker decodes, so that the others help


class Names(Sequence[str]):
    """Many file names as one string of bytes: a million of them are no million objects."""

    def __init__(self, names: Sequence[str]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self._bytes = b"".join(encoded)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> str:  # type: ignore[override]
        """One of them."""
        return os.fsdecode(self._bytes[self._ends[row] : self._ends[row + 1]])


@dataclass(frozen=True, eq=False)
class Files:
    """Images that lie in files, one a row.

    Attributes:
        root: The folder that names are relative to.
        names: All files, those of other parts of the data too.
        rows: (rows,) which of them these are.
        form: Channels, height and width that they are decoded to.
        device: Where their pixels go.
        broken: Files that could be read once and no longer can, and why; shared by all parts.
    """

    root: str
    names: Names
    rows: Tensor
    form: Form
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    broken: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.rows)

    @property
    def shape(self) -> torch.Size:
        """(rows, channels, height, width)."""
        return torch.Size((len(self.rows), *self.form))

    @property
    def dtype(self) -> torch.dtype:
        """Pixels are bytes."""
        return torch.uint8

    @property
    def ndim(self) -> int:
        """As many as an image has, and one for the rows."""
        return len(self.shape)

    def numel(self) -> int:
        """How many bytes they would take in memory."""
        return self.shape.numel()

    def is_floating_point(self) -> bool:
        """Pixels are bytes."""
        return False

    @overload
    def __getitem__(self, rows: int) -> Tensor: ...
    @overload
    def __getitem__(self, rows: Tensor | Sequence[int] | slice) -> Files: ...
    def __getitem__(self, rows: int | Tensor | Sequence[int] | slice) -> Tensor | Files:
        """Some of the images, nothing decoded; or the pixels of a single one."""
        if isinstance(rows, int):
            return next(self.read([torch.tensor([range(len(self))[rows]])]))[0]
        return replace(self, rows=self.rows[rows.cpu() if isinstance(rows, Tensor) else rows])

    def to(self, device: torch.device | str) -> Files:
        """The same images, whose pixels go to another device."""
        return replace(self, device=torch.device(device))

    def read(self, chunks: Sequence[Tensor]) -> Iterator[Tensor]:
        """The pixels of chosen rows, a tensor for every chunk; a broken file is a black image."""
        pieces = [torch.split(chunk, PIECE) for chunk in chunks]
        decoded = self.decoded([piece for parts in pieces for piece in parts])
        for parts in pieces:
            found = []
            for pixels, faults in islice(decoded, len(parts)):
                self._note(faults)
                found.append(pixels)
            whole = found[0] if len(found) == 1 else np.concatenate(found)
            yield torch.from_numpy(whole).to(self.device)

    def _note(self, faults: Mapping[str, str]) -> None:
        """Remember what broke, and say so the first time."""
        if faults and not self.broken:
            name, why = next(iter(faults.items()))
            warnings.warn(
                f"{name} can no longer be read ({why}): a black image takes its place, and that of "
                "any other that breaks from now on",
                stacklevel=4,
            )
        self.broken.update(faults)

    def decoded(self, chunks: Sequence[Tensor]) -> Iterator[tuple[Pixels, Mapping[str, str]]]:
        """The pixels of every chunk, and which files of it cannot be read, and why."""
        wanted = [self.rows[chunk.cpu()].numpy() for chunk in chunks]
        workers = 0 if sum(map(len, wanted)) <= FEW else None
        return ahead(_Decode(self.root, self.names, self.form, wanted), len(wanted), workers)


@dataclass(frozen=True)
class _Decode:
    """What a worker does."""

    root: str
    names: Names
    form: Form
    chunks: Sequence[NDArray[np.int64]]

    def __call__(self, number: int) -> tuple[Pixels, Mapping[str, str]]:
        rows = self.chunks[number]
        pixels = np.zeros((len(rows), *self.form), dtype=np.uint8)
        faults = {}
        for place, row in enumerate(rows):
            name = self.names[row]
            try:
                pixels[place] = decode(os.path.join(self.root, name), self.form)
            except Unreadable as error:
                faults[name] = str(error)
        return pixels, faults


if TYPE_CHECKING:
    # Else everyone who looks into a small data set would have to say which of the two it is.
    Inputs = Tensor
else:
    Inputs = Tensor | Files


def fetch(inputs: Inputs, chunks: Sequence[Tensor]) -> Iterator[Tensor]:
    """The values of chosen rows, a tensor for every chunk, in order."""
    if isinstance(inputs, Files):
        return inputs.read(chunks)
    return (inputs.index_select(0, chunk) for chunk in chunks)


def walk(inputs: Inputs, size: int) -> Iterator[Tensor]:
    """All values in order, `size` rows at a time."""
    if isinstance(inputs, Files):
        return inputs.read(torch.split(torch.arange(len(inputs)), size))
    return iter(torch.split(inputs, size))


def values(inputs: Inputs, rows: Tensor) -> Tensor:
    """The values of a few rows."""
    return next(iter(fetch(inputs, [rows.to(inputs.device)])))
