"""A small table that comes with scikit-learn, and two that are drawn from Gaussians."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labelnoise.data.dataset import Dataset
from labelnoise.seeds import stream

HUNDRED = 100  # classes
RARE = 0.1  # fraction of positives


def read_breast_cancer(data_dir: Path | None = None) -> Dataset:
    """569 tumours, 30 measurements of each, malignant (37 %) or benign."""
    from sklearn.datasets import load_breast_cancer

    tumours = load_breast_cancer()
    return Dataset(
        name="breast-cancer",
        inputs=torch.from_numpy(tumours.data.astype(np.float32)),
        labels=torch.from_numpy(tumours.target.astype(np.int64)),
        classes=tuple(map(str, tumours.target_names)),
        verified=True,
    )


def read_hundred(data_dir: Path | None = None) -> Dataset:
    """100 classes of two Gaussians each in 20 dimensions; the best rule is right in nine of ten."""
    chance = stream(0, "hundred")
    centres = 1.1 * torch.randn(2 * HUNDRED, 20, generator=chance)

    def draw(rows: int) -> tuple[Tensor, Tensor]:
        which = torch.randint(2 * HUNDRED, (rows,), generator=chance)
        return centres[which] + torch.randn(rows, 20, generator=chance), which % HUNDRED

    return _drawn("hundred", draw(60_000), draw(10_000), tuple(map(str, range(HUNDRED))))


def read_rare(data_dir: Path | None = None) -> Dataset:
    """Two classes, one sample in ten positive, and most positives look like negatives.

    Positives are normal around +2 or -2 in the first of 20 dimensions, negatives around 0.
    """
    chance = stream(0, "rare")

    def draw(rows: int) -> tuple[Tensor, Tensor]:
        labels = (torch.rand(rows, generator=chance) < RARE).long()
        side = torch.randint(2, (rows,), generator=chance) * 4.0 - 2
        inputs = torch.randn(rows, 20, generator=chance)
        inputs[:, 0] += labels * side
        return inputs, labels

    return _drawn("rare", draw(60_000), draw(10_000), ("negative", "positive"))


def _drawn(
    name: str, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], classes: tuple[str, ...]
) -> Dataset:
    return Dataset(
        name=name,
        inputs=train[0],
        labels=train[1],
        classes=classes,
        test_inputs=test[0],
        test_labels=test[1],
        verified=True,
    )
