"""Train: the training part, and the ways to walk over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from labelnoise.batch import Batch
from labelnoise.data.few_classes import few_classes
from labelnoise.data.scale import Scaling
from labelnoise.data.stored import Inputs, fetch, readable, unread
from labelnoise.errors import LabelNoiseError
from labelnoise.seeds import stream

Augment = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Train:
    """Inputs and given labels on one device; batches are indexed, augmented, scaled whole.

    Attributes:
        inputs: (rows, ...) as stored, bytes or floats; in memory or in files.
        labels: (rows,) as given.
        scaling: What makes network inputs of stored ones.
        batch_size: Rows of a batch; the last one of an epoch may be smaller.
        seed: Gives the order and the augmentations of every epoch.
        augment: Changes a batch of stored inputs at random, or nothing.
        rank: Which of the processes that train together this one is, from 0.
        world: How many they are; `batch_size` is that of each, and each has its part of every
            mini-batch of all.
        classes_per_batch: How many given labels the rows of a batch have, at most; without, chance
            decides. Rows may then come more than once an epoch, or not at all.
    """

    inputs: Inputs
    labels: Tensor
    scaling: Scaling
    batch_size: int
    seed: int
    augment: Augment | None = None
    rank: int = 0
    world: int = 1
    classes_per_batch: int | None = None

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.labels)

    def batches(self, number: int, views: int = 1, rows: Tensor | None = None) -> Iterator[Batch]:
        """All rows (or the chosen ones) in the random order of epoch `number`.

        Where batches have few classes, as many rows of every class instead.

        The order depends on the seed and the epoch alone: a run that goes on in epoch 7 sees what
        it would have seen without the stop. A file that cannot be read is no row of its batch.
        """
        rows = torch.arange(len(self)) if rows is None else rows.cpu()
        chance = stream(self.seed, "augment", number, *self._apart())
        chunks = self._own(self._order(number, rows))
        for count, (index, stored) in enumerate(self._read(chunks)):
            if not len(index) and self.world == 1:  # with others, each takes part in every step
                continue
            yield Batch(
                views=tuple(self._view(stored, chance) for _ in range(views)),
                labels=self.labels.index_select(0, index),
                index=index,
                time=number + count / len(chunks),
            )

    def forever(self, batch_size: int) -> Forever:
        """Batches without end, of `batch_size` rows or of all if there are fewer, of any class.

        Where several processes train together, they share each of these.
        """
        size = -(-min(batch_size, len(self)) // self.world)
        return Forever(replace(self, batch_size=size, classes_per_batch=None))

    def whole(self) -> Batch:
        """All rows as one batch, in order, without augmentation; of several processes, its part."""
        own = self._own([torch.arange(len(self), device=self.labels.device)])
        ((index, stored),) = self._read(own)
        return Batch((self.scaling(stored),), self.labels[index], index, time=0.0)

    def scan(self, batch_size: int | None = None) -> Iterator[Batch]:
        """All rows in order, without augmentation."""
        every = torch.arange(len(self), device=self.labels.device)
        chunks = torch.split(every, batch_size or self.batch_size)
        for index, stored in self._read(chunks):
            if len(index):
                yield Batch((self.scaling(stored),), self.labels[index], index, time=0.0)

    def _read(self, chunks: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Of every chunk the rows that can be read, and their inputs.

        If there is nothing to train on, that is an error; a process with others has some only if it
        can read none of several mini-batches.
        """
        found = 0
        fetched = fetch(self.inputs, chunks, lasting=False)  # scaling makes copies
        for index, stored in zip(chunks, fetched, strict=True):
            keep = readable(self.inputs, index)
            if keep is not None and not keep.all():
                # A single row that is left has no variance to be normalised by.
                left = keep & (keep.sum() > 1)
                here = left.to(index.device)
                yield index[here], stored[here]
                found += int((left if self.world == 1 else keep).sum())
            else:
                yield index, stored
                found += len(index)
        if not found and len(chunks) >= min(self.world, 2):
            name, why = next(iter(unread(self.inputs).items()))
            raise LabelNoiseError(f"none of the images can be read: {name} ({why})")

    def _own(self, chunks: list[Tensor]) -> list[Tensor]:
        """This process's part of every chunk, dealt out: a chunk may be in the order of classes."""
        return [chunk[self.rank :: self.world] for chunk in chunks]

    def _apart(self) -> tuple[int, ...]:
        """What tells the chance of this process from that of the others."""
        return (self.rank,) if self.rank else ()

    def _order(self, number: int, rows: Tensor) -> list[Tensor]:
        """The rows of every batch of epoch `number`."""
        chance, device = stream(self.seed, "order", number), self.labels.device
        if self.classes_per_batch is None:
            order = rows[torch.randperm(len(rows), generator=chance)]
            return _chunks(order.to(device), self.batch_size, self.world)
        labels, size = self.labels.cpu()[rows], self.batch_size * self.world
        few = few_classes(labels, size, self.classes_per_batch, chance)
        return [rows[places].to(device) for places in few]

    def _view(self, stored: Tensor, chance: torch.Generator) -> Tensor:
        return self.scaling(stored if self.augment is None else self.augment(stored, chance))


class Forever:
    """One pass over a part after another; where it stands is a number, so that it can go on."""

    def __init__(self, part: Train) -> None:
        self._part = part
        self._steps = len(_chunks(torch.arange(len(part)), part.batch_size, part.world))
        self._walk: Iterator[Batch] = iter(())
        self._kept: Batch | None = None
        self._drawn = 0
        self.load_state_dict({"drawn": 0})

    def __iter__(self) -> Forever:
        """Itself."""
        return self

    def __next__(self) -> Batch:
        """The next batch."""
        while True:
            number, position = divmod(self._drawn, self._steps)
            if position == 0:
                self._walk = self._pass(number)
            if (batch := next(self._walk, None)) is not None:
                self._drawn += 1
                return batch
            self._drawn = (number + 1) * self._steps  # a batch of which no file can be read

    def _pass(self, number: int) -> Iterator[Batch]:
        """All rows; if they are one batch that chance does not change, it is made once and kept."""
        if self._steps > 1 or self._part.augment is not None:
            return self._part.batches(number)
        self._kept = self._kept or self._part.whole()
        return iter((self._kept,))

    def state_dict(self) -> dict[str, int]:
        """How many batches were drawn."""
        return {"drawn": self._drawn}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go to the place where so many batches were drawn."""
        self._drawn = state["drawn"]
        number, position = divmod(self._drawn, self._steps)
        self._walk = islice(self._part.batches(number), position, None)


def _chunks(order: Tensor, size: int, world: int = 1) -> list[Tensor]:
    """`order` in pieces of `size` for each of `world` processes.

    A last piece in which one of them has no more than one row joins the piece before: a single row
    has neither a deviation (BARE) nor a variance (batch norm).
    """
    chunks = list(torch.split(order, size * world))
    if len(chunks) > 1 and len(chunks[-1]) < 2 * world and size > 1:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks
