"""What an audit is of: to read it again, and to know that it is the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labelnoise.data import Columns, read
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.parts import digest

Source = Mapping[str, Any]
"""What `summary.json` says of the data: `data`, `label`, `image`, `text` and their `digest`."""


def source_of(dataset: Dataset, data: str, columns: Columns) -> dict[str, Any]:
    """What to note of the data of an audit."""
    return {
        "data": data,
        "label": columns.label,
        "image": columns.image,
        "text": columns.text,
        "digest": digest(dataset),
    }


def reread(source: Source, data_dir: Path | None = None) -> Dataset:
    """The data of an audit, or an error if they are no longer what they were."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said when they were audited
        columns = Columns(source.get("label"), source.get("image"), source.get("text"))
        dataset = read(source["data"], data_dir, columns)
    if digest(dataset) != source["digest"]:
        raise LabelNoiseError(
            f"{source['data']} has changed since it was audited: audit it again, then decide"
        )
    return dataset
