"""The handwritten digits that come with scikit-learn: 1,797 images of 8x8, no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from labelnoise.data.dataset import Dataset
from labelnoise.data.idx import DIGIT_FLIPS

BRIGHTEST = 16.0


def read_digits(data_dir: Path | None = None) -> Dataset:
    """Read the digits, (1797, 1, 8, 8) float32 in [0, 1]; they need no data directory."""
    from sklearn.datasets import load_digits  # a second that only this data set should cost

    digits = load_digits()
    inputs = torch.from_numpy((digits.images / BRIGHTEST).astype(np.float32)).unsqueeze(1)
    return Dataset(
        name="digits",
        inputs=inputs,
        labels=torch.from_numpy(digits.target.astype(np.int64)),
        classes=tuple("0123456789"),
        flips=DIGIT_FLIPS,
        verified=True,
    )
