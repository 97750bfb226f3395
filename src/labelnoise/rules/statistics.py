"""Statistics of a mini-batch's probabilities, class by class, as fast as memory allows.

All of them are one line of PyTorch each, which takes up to twenty times as long where batches or
classes are many: it goes along the columns of a matrix that lies in memory row by row, or makes
copies that leave the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

CHUNK = 1 << 17  # probabilities at a time, at most: what is made of them stays in the cache
ROWS = 256  # that are added up one after the other: few, so that rounding cannot pile up
FEW = 32  # classes up to which what is good for many does not pay
TOLERANCE = 8  # units in the last place, relative to the value compared with
BLOCK = 64  # classes among which the largest probability is looked for at a time


def moments(probs: Tensor) -> tuple[Tensor, Tensor]:
    """(classes,) means and population variances."""
    if not probs.is_cpu:
        variance, mean = torch.var_mean(probs, dim=0, correction=0)
        return mean, variance
    # The statistics of batch normalisation go along the rows; torch.var goes along the columns, and
    # takes up to twenty times as long.
    size, classes = probs.shape
    pieces = _pieces(probs)
    found = [torch.batch_norm_update_stats(piece, None, None, 0.0) for piece in pieces]
    if len(found) == 1:
        means, variances = (each.view(-1, classes) for each in found[0])
        if len(means) == 1:
            return means[0], variances[0]
    else:
        means, variances = (torch.cat(each).view(-1, classes) for each in zip(*found, strict=True))
    if len({len(piece) for piece in pieces}) == 1:
        mean = means.mean(dim=0)
        return mean, means.sub_(mean).square_().add_(variances).mean(dim=0)
    rows = [len(piece) for piece in pieces for _ in range(piece.shape[1] // classes)]
    share = torch.tensor(rows, dtype=means.dtype).div_(size).unsqueeze(1)
    mean = (means * share).sum(dim=0)
    return mean, means.sub_(mean).square_().add_(variances).mul_(share).sum(dim=0)


def halves(probs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(classes,) sums, how many lie above the mean, sums of what was raised to it, and the mean.

    The mean is less what rounding may have done. What a piece needs stays in the cache.
    """
    size, classes = probs.shape
    if probs.numel() <= CHUNK:
        total = probs.sum(dim=0, dtype=torch.float64)
        bar = total.div(size * slack(probs)).to(probs.dtype)
        high = torch.maximum(probs, bar)
        raised = high.sum(dim=0, dtype=torch.float64)
        return total, high.gt_(bar).sum(dim=0), raised, bar
    pieces = _pieces(probs)
    # A product with ones reads memory in its order, which torch.sum over rows does not.
    ones = probs.new_ones(ROWS)
    total = _added_up([_sum_of_rows(piece, ones) for piece in pieces], classes)
    bar = (total / (size * (1 + rounding(probs)))).to(probs.dtype)
    room = torch.empty_like(pieces[0])
    bars = bar.repeat(room.shape[1] // classes)
    sums, counts = [], []
    for piece in pieces:
        if piece.shape != room.shape:
            room, bars = torch.empty_like(piece), bar.repeat(piece.shape[1] // classes)
        sums.append(torch.maximum(piece, bars, out=room).sum(dim=0))
        counts.append(room.gt_(bars).sum(dim=0))  # in place: booleans take much longer to count
    return total, _added_up(counts, classes), _added_up(sums, classes), bar


def most_probable(probs: Tensor) -> tuple[Tensor, Tensor]:
    """(batch,) the largest probability, and the first class that has it.

    torch.max looks at one after the other when it must say which one it was.
    """
    classes = probs.shape[1]
    if classes <= FEW:
        largest, predicted = probs.max(dim=1)
        return largest, predicted
    if classes < 4 * BLOCK:
        largest = probs.amax(dim=1, keepdim=True)
        found = torch.ge(probs, largest, out=torch.empty_like(probs))  # 1 where it is, else 0
        found.mul_(torch.arange(classes, 0, -1, dtype=probs.dtype, device=probs.device))
        return largest.squeeze(1), (classes - found.amax(dim=1)).long().clamp_(max=classes - 1)
    whole = classes // BLOCK * BLOCK
    blocks = torch.unflatten(probs[:, :whole], 1, (-1, BLOCK)).amax(dim=2)
    if whole < classes:
        blocks = torch.cat([blocks, probs[:, whole:].amax(dim=1, keepdim=True)], dim=1)
    largest, block = blocks.max(dim=1)
    inside = torch.arange(BLOCK, device=probs.device)
    place = torch.add(inside, block.unsqueeze(1), alpha=BLOCK).clamp_(max=classes - 1)
    return largest, block.mul_(BLOCK).add_(probs.gather(1, place).argmax(dim=1))


def sums_by(index: Tensor, size: int, *columns: Tensor) -> Tensor:
    """(size, columns) the sums of each column, by index."""
    return torch.stack([each.new_zeros(size).index_add_(0, index, each) for each in columns], dim=1)


def in_pieces(values: Tensor, classes: int) -> Sequence[Tensor]:
    """The values, so many at a time that what is made of them stays in the cache."""
    rows = max(1, CHUNK // 2 // classes)
    return torch.split(values, rows) if len(values) > rows else (values,)


def rounding(probs: Tensor) -> float:
    """How far a sum of rows one after the other may be off."""
    return ROWS / 4 * torch.finfo(probs.dtype).eps


def reaches(value: Tensor, bar: Tensor) -> Tensor:
    """Whether a value that is not negative is at least `bar`, up to what rounding may have done."""
    return value * slack(value) >= bar


def slack(value: Tensor) -> float:
    """By which factor a value may be too small by rounding alone."""
    return _slack(value.dtype)


def _pieces(probs: Tensor) -> list[Tensor]:
    """The batch in pieces of few rows: (rows, several samples times classes).

    Where classes are few, several samples make a row, so that a sum of rows is one of long vectors.
    """
    size, classes = probs.shape
    if size <= ROWS and size * classes <= 4 * CHUNK:
        return [probs]
    probs, side, rows = probs.contiguous(), 1, ROWS
    while size > ROWS * side and 2 * side * classes * ROWS <= CHUNK:
        side *= 2
    while rows > ROWS // 8 and rows * side * classes > CHUNK:
        rows //= 2
    whole = size // side * side
    wide = torch.split(probs[:whole].view(-1, side * classes), rows)
    return [*wide, *torch.split(probs[whole:], rows)] if whole < size else list(wide)


def _sum_of_rows(piece: Tensor, ones: Tensor) -> Tensor:
    """With room of its own, so that autocast leaves the product alone."""
    return torch.mv(piece.T, ones[: len(piece)], out=piece.new_empty(piece.shape[1]))


def _added_up(sums: list[Tensor], classes: int) -> Tensor:
    """(classes,) in float64, from sums over the rows of pieces."""
    return torch.cat(sums).view(-1, classes).sum(dim=0, dtype=torch.float64)


@cache
def _slack(dtype: torch.dtype) -> float:
    return 1 + TOLERANCE * torch.finfo(dtype).eps
