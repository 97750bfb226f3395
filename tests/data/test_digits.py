from __future__ import annotations

import torch

from labelnoise.data.digits import read_digits
from labelnoise.data.split import stratified_split


def test_digits() -> None:
    data = read_digits()
    assert data.inputs.shape == (1797, 1, 8, 8)
    assert data.inputs.dtype == torch.float32
    assert (data.inputs.min().item(), data.inputs.max().item()) == (0.0, 1.0)
    assert data.labels.dtype == torch.int64
    assert torch.bincount(data.labels).tolist() == [
        178,
        182,
        177,
        183,
        181,
        182,
        181,
        179,
        174,
        180,
    ]
    assert data.classes == tuple("0123456789")
    assert data.test_inputs is None
    assert data.test_labels is None
    assert data.flips == {7: 1, 2: 7, 3: 8, 5: 6, 6: 5}
    assert data.verified
    assert data.split is stratified_split
