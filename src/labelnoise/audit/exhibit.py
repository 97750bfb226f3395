"""Exhibits: how a sample is shown to a person, as an image, as its columns, or as its text."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from labelnoise.audit.findings import Findings
from labelnoise.audit.usual import Usual
from labelnoise.data.dataset import Dataset

Exhibit = dict[str, Any]
"""One of `image` (a data URI), `text`, or `table` (a column, its value, what is usual)."""

SIDE = 96  # pixels of a thumbnail; smaller images stay as they are and are magnified by the page
CRISP = 64  # images up to so many pixels are kept to the pixel, larger ones as photographs
LONGEST_TEXT = 2000  # characters
LONGEST_CELL = 200
MOST_COLUMNS = 40
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # none that is a program, as EPS is
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
    return (_table(usual.beside(row)) for row in rows)


def file_of(dataset: Dataset, row: int) -> Path | None:
    """The image file that a row was read from, if it is one and still there."""
    if not dataset.ids or len(dataset.inputs.shape) != 4:
        return None
    place = Path(dataset.name)
    file = (place if place.is_dir() else place.parent) / dataset.ids[row]
    return file if file.is_file() else None


# --- images ---------------------------------------------------------------------------------------


def _images(dataset: Dataset, rows: Sequence[int]) -> Iterator[Exhibit]:
    low, high = _range(dataset, rows)
    for row in rows:
        if (file := _opened(file_of(dataset, row))) is not None:
            yield {"image": _uri(file)}
            continue
        pixels = dataset.inputs[row].numpy()
        if pixels.dtype != np.uint8:
            share = (pixels.astype(np.float64) - low) / ((high - low) or 1)
            pixels = (255 * share).round().clip(0, 255).astype(np.uint8)
        yield {"image": _uri(_picture(pixels))}


def _opened(file: Path | None) -> Image.Image | None:
    """The file itself, sharper than what a network is given; nothing if it cannot be read."""
    if file is None:
        return None
    try:
        with Image.open(file, formats=FORMATS) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
            upright = ImageOps.exif_transpose(image)
            picture = upright.convert("L" if upright.mode == "L" else "RGB")
            picture.thumbnail((SIDE, SIDE))
            return picture
    except Exception:  # decoders raise nearly anything; the pixels that were read are shown instead
        return None


def _range(dataset: Dataset, rows: Sequence[int]) -> tuple[float, float]:
    """From black to white: numbers that are not bytes have one range for all that is shown."""
    if not dataset.inputs.is_floating_point():
        return 0.0, 255.0
    low, high = 0.0, 0.0
    for row in rows:
        image = dataset.inputs[row]
        low, high = min(low, float(image.min())), max(high, float(image.max()))
    return low, high


def _picture(pixels: NDArray[np.uint8]) -> Image.Image:
    """(channels, height, width) as grey or colour, no larger than a thumbnail."""
    if pixels.shape[0] in (3, 4):
        picture = Image.fromarray(np.ascontiguousarray(np.moveaxis(pixels, 0, 2)))
    else:
        grey = pixels[0] if len(pixels) == 1 else pixels.mean(axis=0).astype(np.uint8)
        picture = Image.fromarray(np.ascontiguousarray(grey))
    picture.thumbnail((SIDE, SIDE))
    return picture


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
    return {f"x{place}": f"{value:.4g}" for place, value in enumerate(dataset.inputs[row].tolist())}


def _table(lines: Sequence[tuple[str, ...]]) -> Exhibit:
    left = len(lines) - MOST_COLUMNS
    shown = [tuple(_cut(text, LONGEST_CELL) for text in line) for line in lines[:MOST_COLUMNS]]
    return {"table": shown, **({"left": left} if left > 0 else {})}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"
