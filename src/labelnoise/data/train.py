"""Train: the training part in memory, and the ways to walk over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from labelnoise.batch import Batch
from labelnoise.data.scale import Scaling
from labelnoise.seeds import stream

Augment = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Train:
    """Inputs and given labels on one device; batches are indexed, augmented, scaled whole.

    Attributes:
        inputs: (rows, ...) as stored, bytes or floats.
        labels: (rows,) as given.
        scaling: What makes network inputs of stored ones.
        batch_size: Rows of a batch; the last one of an epoch may be smaller.
        seed: Gives the order and the augmentations of every epoch.
        augment: Changes a batch of stored inputs at random, or nothing.
    """

    inputs: Tensor
    labels: Tensor
    scaling: Scaling
    batch_size: int
    seed: int
    augment: Augment | None = None

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.labels)

    def batches(self, number: int, views: int = 1, rows: Tensor | None = None) -> Iterator[Batch]:
        """All rows (or the chosen ones) in the random order of epoch `number`.

        The order depends on the seed and the epoch alone: a run that goes on in epoch 7 sees what
        it would have seen without the stop.
        """
        rows = torch.arange(len(self)) if rows is None else rows.cpu()
        order = rows[torch.randperm(len(rows), generator=stream(self.seed, "order", number))]
        chance = stream(self.seed, "augment", number)
        chunks = _chunks(order.to(self.labels.device), self.batch_size)
        for count, index in enumerate(chunks):
            stored = self.inputs.index_select(0, index)
            yield Batch(
                views=tuple(self._view(stored, chance) for _ in range(views)),
                labels=self.labels.index_select(0, index),
                index=index,
                time=number + count / len(chunks),
            )

    def scan(self, batch_size: int | None = None) -> Iterator[Batch]:
        """All rows in order, without augmentation."""
        every = torch.arange(len(self), device=self.labels.device)
        for index in torch.split(every, batch_size or self.batch_size):
            inputs = self.scaling(self.inputs[index])
            yield Batch((inputs,), self.labels[index], index, time=0.0)

    def _view(self, stored: Tensor, chance: torch.Generator) -> Tensor:
        return self.scaling(stored if self.augment is None else self.augment(stored, chance))


def _chunks(order: Tensor, size: int) -> list[Tensor]:
    """`order` in pieces of `size`; a last piece of one row joins the piece before.

    A single row has neither a deviation (BARE) nor a variance (batch norm).
    """
    chunks = list(torch.split(order, size))
    if len(chunks) > 1 and len(chunks[-1]) == 1 < size:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks
