"""Inputs that lie in memory, or in files that are decoded when they are needed.

Small inputs are one tensor. Large ones are `Files`, which looks like a tensor as far as readers,
splits and training ask: a length, a shape, rows to choose, a device to go to. Values come from
`fetch` (chosen rows) and `walk` (all of them), which treat both alike.
"""

from __future__ import annotations

import mmap
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

from labelnoise.data.ahead import ahead, copies, under_way
from labelnoise.data.images import Fit, Form, Pixels, Unreadable, formats, pixels_of, quiet
from labelnoise.data.pages import unfilled

FEW = 256  # files that are decoded sooner than worker processes start
PIECE = 256  # files of a chunk that one worker decodes, so that the others help
PIECE_BYTES = 4 << 20  # that the pixels of a piece take at most: several are ready in advance


class Names(Sequence[str]):
    """Many file names as one string of bytes: a million of them are no million objects."""

    def __init__(self, names: Sequence[str | bytes]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self._bytes = b"".join(encoded)
        self._ends = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=self._ends[1:])

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> str:  # type: ignore[override]
        """One of them."""
        return os.fsdecode(self.encoded(row))

    def encoded(self, row: int) -> bytes:
        """One of them as the system has it."""
        return self._bytes[self._ends[row] : self._ends[row + 1]]


class Called(Sequence[str]):
    """What rows are called that are files: put together when it is looked at."""

    def __init__(self, names: Names, rows: Tensor) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        """How many there are."""
        return len(self._rows)

    def __getitem__(self, row: int) -> str:  # type: ignore[override]
        """The name of one, as text that can be written anywhere."""
        return _text(self._names.encoded(int(self._rows[range(len(self))[row]])))


@dataclass(frozen=True, eq=False)
class Files:
    """Images that lie in files, one a row.

    Attributes:
        root: The folder that names are relative to.
        names: All files, those of other parts of the data too.
        rows: (rows,) which of them these are.
        form: Channels, height and width that they are decoded to.
        device: Where their pixels go.
        broken: Which of the names cannot be read, and why, as far as they were looked at; shared
            by all parts.
        fit: How images of other proportions become as high and wide as `form` says.
        unseen: Whether no file was opened yet: there are so many that their names must do.
    """

    root: str
    names: Names
    rows: Tensor
    form: Form
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    broken: dict[int, str] = field(default_factory=dict)
    fit: Fit = "stretch"
    unseen: bool = False

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

    def read(self, chunks: Sequence[Tensor], *, lasting: bool = True) -> Iterator[Tensor]:
        """The pixels of chosen rows, a tensor for every chunk.

        A file that cannot be read is `broken` from then on and black here, for `readable` to leave
        out.

        Args:
            chunks: Which rows.
            lasting: Whether pixels stay when the next ones are asked for. Who is done with them by
                then saves the system from handing out the same memory again and again.
        """
        pieces = [_evenly(chunk, self._piece) for chunk in chunks]
        decoded = self.decoded([piece for parts in pieces for piece in parts])
        # What lies in pinned memory goes to a GPU while this process does something else.
        pinned = self.device.type == "cuda"
        kept: Tensor | None = None
        for chunk, parts in zip(chunks, pieces, strict=True):
            if kept is None or len(kept) < len(chunk):
                kept = self._place(len(chunk), pinned=pinned)
            # A GPU may still be copying what is pinned.
            whole, kept = kept[: len(chunk)], None if lasting or pinned else kept
            begin = 0
            for pixels, faults in islice(decoded, len(parts)):
                self._note(faults)
                whole[begin : begin + len(pixels)] = torch.from_numpy(pixels)
                begin += len(pixels)
            yield whole.to(self.device, non_blocking=pinned)

    def _place(self, rows: int, *, pinned: bool) -> Tensor:
        """Memory of this process for the pixels of a chunk."""
        shape = (rows, *self.form)
        if pinned:
            return torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        return unfilled(shape, torch.uint8, torch.device("cpu"))

    @property
    def _piece(self) -> int:
        """How many files a worker decodes at a time."""
        channels, height, width = self.form
        return max(1, min(PIECE, PIECE_BYTES // (channels * height * width)))

    def _note(self, faults: Mapping[int, str]) -> None:
        """Remember what broke, and say so the first time."""
        if faults and not self.broken:
            row, why = next(iter(faults.items()))
            warnings.warn(
                f"{_text(self.names.encoded(row))} cannot be read ({why}): it is left out, and so "
                "is any other that cannot be read from now on",
                stacklevel=4,
            )
        self.broken.update(faults)

    def readable(self, rows: Tensor | None = None) -> Tensor | None:
        """(rows,) which of the chosen rows, or of all, are not `broken`; None if none is."""
        if not self.broken:
            return None
        chosen = self.rows if rows is None else self.rows[rows.cpu()]
        return torch.isin(chosen, torch.tensor(list(self.broken)), invert=True)

    def decoded(self, chunks: Sequence[Tensor]) -> Iterator[tuple[Pixels, Mapping[int, str]]]:
        """The pixels of every chunk, and which names of it cannot be read, and why.

        Pixels are there until the next ones are asked for.
        """
        wanted = [self.rows[chunk.cpu()].numpy() for chunk in chunks]
        workers = 0 if sum(map(len, wanted)) <= FEW else None
        work = _Decode(self.root, self.names, self.form, self.fit, wanted)
        formats()  # here, or every worker would import the decoders anew
        slots = work.shared(under_way(workers, len(wanted)))
        if slots is None:
            yield from ahead(work, len(wanted), workers)
            return
        for number, faults in enumerate(ahead(_Fill(work, slots), len(wanted), workers)):
            yield slots[number % len(slots)][: len(wanted[number])], faults


@dataclass(frozen=True)
class _Decode:
    """What a worker does."""

    root: str
    names: Names
    form: Form
    fit: Fit
    chunks: Sequence[NDArray[np.int64]]

    def __call__(self, number: int) -> tuple[Pixels, Mapping[int, str]]:
        pixels = np.empty((len(self.chunks[number]), *self.form), dtype=np.uint8)
        return pixels, self.fill(number, pixels)

    def fill(self, number: int, pixels: Pixels) -> Mapping[int, str]:
        """Decode into memory that is there."""
        faults = {}
        with quiet():
            for place, row in enumerate(self.chunks[number].tolist()):
                path = os.path.join(self.root, self.names[row])
                try:
                    pixels[place] = pixels_of(path, self.form, self.fit)
                except Unreadable as error:
                    pixels[place] = 0
                    faults[row] = str(error)
        return faults

    def shared(self, count: int) -> Pixels | None:
        """Memory for `count` results that workers write and this process reads.

        Nothing is then copied through a pipe. It has no name, so that it needs none of /dev/shm, of
        which containers have little; only copies of this process know it.
        """
        if not (count and copies()):
            return None
        shape = (count, max(map(len, self.chunks)), *self.form)
        try:
            return np.frombuffer(mmap.mmap(-1, int(np.prod(shape))), np.uint8).reshape(shape)
        except OSError:
            return None


@dataclass(frozen=True)
class _Fill:
    """What a worker does that shares memory."""

    work: _Decode
    slots: Pixels

    def __call__(self, number: int) -> Mapping[int, str]:
        return self.work.fill(number, self.slots[number % len(self.slots)])


def _evenly(chunk: Tensor, most: int) -> Sequence[Tensor]:
    """Parts of at most so many rows; workers have turns, and one with a small part would wait."""
    return torch.tensor_split(chunk, max(1, -(-len(chunk) // most)))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


if TYPE_CHECKING:
    # Else everyone who looks into a small data set would have to say which of the two it is.
    Inputs = Tensor
else:
    Inputs = Tensor | Files


def fetch(inputs: Inputs, chunks: Sequence[Tensor], *, lasting: bool = True) -> Iterator[Tensor]:
    """The values of chosen rows, a tensor for every chunk, in order; see `Files.read`."""
    if isinstance(inputs, Files):
        return inputs.read(chunks, lasting=lasting)
    return (inputs.index_select(0, chunk) for chunk in chunks)


def walk(inputs: Inputs, size: int, *, lasting: bool = True) -> Iterator[Tensor]:
    """All values in order, `size` rows at a time; see `Files.read`."""
    if isinstance(inputs, Files):
        return inputs.read(torch.split(torch.arange(len(inputs)), size), lasting=lasting)
    return iter(torch.split(inputs, size))


def values(inputs: Inputs, rows: Tensor) -> Tensor:
    """The values of a few rows."""
    return next(iter(fetch(inputs, [rows.to(inputs.device)])))


def readable(inputs: Inputs, rows: Tensor | None = None) -> Tensor | None:
    """(rows,) which of the chosen rows, or of all, could be read when they were; None if all."""
    return inputs.readable(rows) if isinstance(inputs, Files) else None


def broken(inputs: Inputs) -> dict[int, str]:
    """By name, which of their files could not be read, and why; to look at and to add to."""
    return inputs.broken if isinstance(inputs, Files) else {}


def unread(*parts: Inputs | None) -> dict[str, str]:
    """The files of some parts that could not be read, and why."""
    found: dict[str, str] = {}
    for part in parts:
        if isinstance(part, Files):
            found |= {_text(part.names.encoded(row)): why for row, why in part.broken.items()}
    return found
