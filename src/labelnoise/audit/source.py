"""What an audit is of: to read it again, and to know that it is the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labelnoise.data import read
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.parts import digest

Source = Mapping[str, Any]
"""What `summary.json` says of the data: `data`, `label`, `image`, `text` and their `digest`."""


def reread(source: Source, data_dir: Path | None = None) -> Dataset:
    """The data of an audit, or an error if they are no longer what they were."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said when they were audited
        dataset = read(source["data"], data_dir)
    if digest(dataset) != source["digest"]:
        raise LabelNoiseError(
            f"{source['data']} has changed since it was audited: audit it again, then decide"
        )
    return dataset
