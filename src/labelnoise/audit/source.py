"""What an audit is of: to read it again, and to know that it is the same."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from labelnoise.data import Columns, base_of, is_own, read
from labelnoise.data.dataset import Dataset
from labelnoise.data.derive import only
from labelnoise.data.formats import format_of
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.parts import digest

Source = Mapping[str, Any]
"""What `summary.json` says of the data: `data`, their `digest`, the `label`, `image` and `text`
columns, the `noise` that was planted, and the rows `left_out` because they could not be read."""


def source_of(
    dataset: Dataset,
    data: str,
    columns: Columns,
    *,
    noise: str = "none",
    left_out: Sequence[int] = (),
) -> dict[str, Any]:
    """What to note of the data of an audit, so that it can be read from any working folder.

    Args:
        dataset: The data as they were read.
        data: What was asked for: a name or a path, perhaps with a change.
        columns: What was said of the columns.
        noise: Wrong labels that were planted.
        left_out: Rows that turned out to be unreadable.
    """
    label, base = columns.label, base_of(data)
    if is_own(base):
        path = os.path.abspath(os.path.expanduser(base))
        data = path + data.removeprefix(base)
        form = format_of(Path(path))
        if label is not None and form is not None and form.label_is_file:
            label = os.path.abspath(os.path.expanduser(label))
    return {
        "data": data,
        "noise": noise,
        "label": label,
        "image": columns.image,
        "text": columns.text,
        "digest": digest(dataset),
        **({"left_out": list(left_out)} if left_out else {}),
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
    keep = torch.ones(len(dataset.labels), dtype=torch.bool)
    keep[source.get("left_out", [])] = False
    return only(dataset, keep.nonzero()[:, 0])
