"""Mini-batches of a few classes each, for data of many classes.

With a hundred classes and a hundred rows a batch most classes have one row in it or none, and
nothing to compare that row with. BARE's authors propose batches that are drawn from a few classes
each, every class equally often.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError


def few_classes(
    labels: Tensor, batch_size: int, classes: int, generator: torch.Generator
) -> list[Tensor]:
    """One epoch: positions in `labels`, in mini-batches of `classes` classes each.

    Every class that has rows has equally many places in the epoch: the mean number of rows of a
    class, rounded up. One of just as many rows has each of them once; one of fewer has each of them
    in turn, shuffled anew for every turn; one of more leaves some out, others in every epoch.

    The places of a class are cut into pieces that are as equal as may be, and all classes come once
    before any comes again. Batches have the same number of pieces, of as many different classes, or
    one less where that does not come out even; no batch is larger than `batch_size`.

    Args:
        labels: (rows,) given labels.
        batch_size: Rows of a batch, at most.
        classes: Of a batch; all of them where fewer have rows.
        generator: Gives the order.
    """
    found = sorted(set(labels.tolist()))
    width = min(classes, len(found))
    places = -(-len(labels) // len(found))
    rounds = -(-places // (batch_size // width))
    if width == 2 and rounds * len(found) % 2 and rounds < places:
        rounds += 1  # smaller pieces: an odd one would be a batch of one class
    pieces = {}
    for name in found:
        rows = _in_turn((labels == name).nonzero().squeeze(1), places, generator)
        pieces[name] = torch.tensor_split(rows, rounds)
    batches: list[Tensor] = []
    taken = dict.fromkeys(found, 0)
    waiting: list[int] = []  # classes whose turn has come
    for size in _even(rounds * len(found), width):
        if len(waiting) < size:
            waiting = _next_round(waiting, found, size, generator)
        chosen, waiting = waiting[:size], waiting[size:]
        batches.append(torch.cat([pieces[name][taken[name]] for name in chosen]))
        for name in chosen:
            taken[name] += 1
    return batches


def check_few_classes(classes: int, batch_size: int, known: int) -> None:
    """Refuse a number of classes a mini-batch that cannot be had.

    Args:
        classes: Of a mini-batch.
        batch_size: Its rows.
        known: How many classes there are.
    """
    if classes < 2:
        raise LabelNoiseError(
            "classes_per_batch must be 2 or more: in a mini-batch of one class there is nothing to "
            "tell its labels from"
        )
    if classes > known:
        raise LabelNoiseError(
            f"classes_per_batch is {classes}, but there are {known} classes: take at most {known}"
        )
    if classes > batch_size:
        raise LabelNoiseError(
            f"classes_per_batch is {classes}, but a mini-batch has {batch_size} rows: take fewer "
            f"classes, or batch_size {classes} or more"
        )


def _in_turn(rows: Tensor, places: int, generator: torch.Generator) -> Tensor:
    """(places,) the rows in random order, and again in another one, as often as it takes."""
    turns = -(-places // len(rows))
    orders = [rows[torch.randperm(len(rows), generator=generator)] for _ in range(turns)]
    return torch.cat(orders)[:places]


def _even(pieces: int, width: int) -> list[int]:
    """The fewest sizes of at most `width` that add up to `pieces`, and differ by at most one."""
    count = -(-pieces // width)
    return [pieces // count + (number < pieces % count) for number in range(count)]


def _next_round(
    waiting: list[int], found: list[int], size: int, generator: torch.Generator
) -> list[int]:
    """Those that wait, then all classes in random order, so that the next `size` all differ."""
    order = [found[k] for k in torch.randperm(len(found), generator=generator).tolist()]
    others = [name for name in order if name not in waiting][: size - len(waiting)]
    return waiting + others + [name for name in order if name not in others]
