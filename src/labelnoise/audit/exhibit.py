"""Exhibits: how a sample is shown to a person, as an image, as its columns, or as its text."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from labelnoise.audit.findings import Findings
from labelnoise.audit.usual import Beside, Usual
from labelnoise.data import base_of
from labelnoise.data.dataset import Dataset
from labelnoise.data.images import Pixels, Unreadable, decode, look
from labelnoise.data.labels import missing
from labelnoise.data.stored import values

Exhibit = dict[str, Any]
"""One of `image` (a data URI), `text`, or `table` (a column, its value, what is usual)."""

SIDE = 96  # pixels of a thumbnail; smaller images stay as they are and are magnified by the page
SHARP, FEW = 192, 1000  # pixels where there are no more than so many to show
CRISP = 64  # images up to so many pixels are kept to the pixel, larger ones as photographs
LONGEST_TEXT = 2000  # characters
LONGEST_CELL = 200
MOST_COLUMNS = 40
TEXT = "text"  # the only column of an original that is shown as running text


def exhibits(
    dataset: Dataset, rows: Sequence[int], findings: Findings | None = None
) -> Iterator[Exhibit]:
    """What to show of these rows; with findings, the columns that tell most come first."""
    if len(dataset.inputs.shape) == 4:
        return _images(dataset, rows)
    cells = partial(_cells, dataset)
    if dataset.originals and list(dataset.originals[0]) == [TEXT]:
        return ({"text": _cut(cells(row)[TEXT], LONGEST_TEXT)} for row in rows)
    if findings is None:
        return (_table(list(cells(row).items())) for row in rows)
    usual = Usual(findings, cells)
    order = usual.order(rows)
    return (_table([_known(line) for line in usual.beside(row, order)]) for row in rows)


def file_of(dataset: Dataset, row: int) -> Path | None:
    """The image file that a row was read from, if it is one and still there."""
    place = Path(base_of(dataset.name))
    of_table = (dataset.encoding or {}).get("kind") == "image"
    if not dataset.ids or not (of_table or place.is_dir()):
        return None
    file = (place.parent if of_table else place) / dataset.ids[row].strip()
    return file if file.is_file() else None


# --- images ---------------------------------------------------------------------------------------


def _images(dataset: Dataset, rows: Sequence[int]) -> Iterator[Exhibit]:
    side = SHARP if len(rows) <= FEW else SIDE
    low, high = _range(dataset, rows)
    for row in rows:
        pixels = _file_pixels(file_of(dataset, row), side)
        if pixels is None:
            stored = values(dataset.inputs, torch.tensor([row]))[0].numpy()
            pixels = stored if stored.dtype == np.uint8 else _bytes(stored, low, high)
        picture = _picture(pixels)
        picture.thumbnail((side, side))
        yield {"image": _uri(picture)}


def _file_pixels(file: Path | None, side: int) -> Pixels | None:
    """The file itself, sharper than what a network is given; nothing if it cannot be read."""
    if file is None:
        return None
    try:
        height, width, grey = look(str(file))
        scale = min(1.0, side / max(height, width))
        size = (max(1, round(height * scale)), max(1, round(width * scale)))
        return decode(str(file), (1 if grey else 3, *size))
    except Unreadable:
        return None


def _range(dataset: Dataset, rows: Sequence[int]) -> tuple[float, float]:
    """From black to white: numbers that are not bytes have one range for all that is shown."""
    low, high = 0.0, 0.0
    if dataset.inputs.dtype.is_floating_point:
        for row in rows:
            image = values(dataset.inputs, torch.tensor([row]))
            low, high = min(low, float(image.min())), max(high, float(image.max()))
    return low, high


def _bytes(numbers: NDArray[Any], low: float, high: float) -> Pixels:
    share = (numbers.astype(np.float64) - low) / ((high - low) or 1)
    return (255 * share).round().clip(0, 255).astype(np.uint8)


def _picture(pixels: Pixels) -> Image.Image:
    """(channels, height, width) as grey or colour."""
    if len(pixels) in (3, 4):
        return Image.fromarray(np.ascontiguousarray(np.moveaxis(pixels, 0, 2)))
    grey = pixels[0] if len(pixels) == 1 else pixels.mean(axis=0).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(grey))


def _uri(picture: Image.Image) -> str:
    photograph = picture.mode == "RGB" and max(picture.size) > CRISP
    kind, options = ("jpeg", {"quality": 85}) if photograph else ("png", {"optimize": False})
    written = io.BytesIO()
    picture.save(written, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode()}"


# --- columns and text -----------------------------------------------------------------------------


def _cells(dataset: Dataset, row: int) -> Mapping[str, str]:
    """A row as its owner wrote it, or its numbers."""
    if dataset.originals:
        return dataset.originals[row]
    numbers = values(dataset.inputs, torch.tensor([row]))[0]
    return {f"x{place}": f"{value:.4g}" for place, value in enumerate(numbers.tolist())}


def _known(line: Beside) -> Beside:
    """Values that are missing become empty: the page has one word for them, however written."""
    value, given, suggested = ("" if missing(text) else text for text in line[1:])
    return line[0], value, given, suggested


def _table(lines: Sequence[tuple[str, ...]]) -> Exhibit:
    left = len(lines) - MOST_COLUMNS
    shown = [tuple(_cut(text, LONGEST_CELL) for text in line) for line in lines[:MOST_COLUMNS]]
    return {"table": shown, **({"left": left} if left > 0 else {})}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"
