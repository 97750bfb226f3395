"""Glyphs: a hundred characters in sixteen fonts, drawn here; many classes with few samples each.

The fonts are those that come with matplotlib. Every character is drawn once in every font; a sample
is one of these drawings, turned, sheared, stretched and shifted, fainter or stronger, blurred or
not, with grain. Characters that look alike at any size (o and O, l and I, 0 and O) are not both in.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from labelnoise.data.dataset import Dataset
from labelnoise.seeds import stream

CHARACTERS = (
    "23456789ABCDEFGHJKLMNOPQRSTUVWXYZabdefghikmnqrty"
    "#$%&?@!*+=/\\<>{}[]()~^§£¥¶©±€:"
    "ΓΔΘΛΞΠΣΦΨΩδζλμξωЖЙЮЯЩЭ"
)
FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique"),
    *("DejaVuSansMono-BoldOblique", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic"),
    *("DejaVuSerif-BoldItalic", "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic"),
    "STIXGeneralBolIta",
)
TRAINING, TEST = 200, 40  # images of every class
SIDE, FINE = 28, 2  # pixels of an image; finer pixels a side of each, while it is bent
PIECE = 2000  # images at a time


def read_glyphs(data_dir: Path | None = None) -> Dataset:
    """24,000 images of 28x28, grey; 200 of every class to train on and 40 to test."""
    inputs, labels = _drawn(TRAINING, "training")
    test_inputs, test_labels = _drawn(TEST, "test")
    return Dataset(
        name="glyphs",
        inputs=inputs,
        labels=labels,
        classes=tuple(CHARACTERS),
        test_inputs=test_inputs,
        test_labels=test_labels,
        verified=True,
    )


def _drawn(each: int, part: str) -> tuple[Tensor, Tensor]:
    """(rows, 1, 28, 28) bytes and (rows,) labels, `each` of every class in random order."""
    chance = stream(0, "glyphs", part)
    rows = each * len(CHARACTERS)
    labels = torch.randperm(rows, generator=chance) % len(CHARACTERS)
    fonts = torch.randint(len(FONTS), (rows,), generator=chance)
    plain = drawings()[labels, fonts]
    images = [_varied(piece, chance) for piece in torch.split(plain, PIECE)]
    return torch.cat(images), labels


def _varied(plain: Tensor, chance: torch.Generator) -> Tensor:
    """(rows, side, side) bytes as (rows, 1, 28, 28) bytes, each another way."""

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(len(plain), generator=chance)

    turn, shear = between(-0.15, 0.15), between(-0.15, 0.15)  # radians; widths a height
    wide, high = between(0.6, 0.8), between(0.6, 0.8)  # of the drawing, in an image
    left, up = between(-0.1, 0.1), between(-0.1, 0.1)  # half widths of the drawing
    cosine, sine = turn.cos(), turn.sin()
    place = torch.stack(
        [
            torch.stack([wide * cosine, wide * (shear * cosine - sine), left], dim=1),
            torch.stack([high * sine, high * (shear * sine + cosine), up], dim=1),
        ],
        dim=1,
    )
    size = [len(plain), 1, FINE * SIDE, FINE * SIDE]
    grid = functional.affine_grid(place, size, align_corners=False)
    ink = plain.unsqueeze(1).float() / 255
    bent = functional.avg_pool2d(functional.grid_sample(ink, grid, align_corners=False), FINE)
    blurred = functional.avg_pool2d(functional.pad(bent, (1, 1, 1, 1)), 3, stride=1)
    images = bent.lerp(blurred, between(0, 1).view(-1, 1, 1, 1))
    images *= between(0.5, 1).view(-1, 1, 1, 1)
    grain = torch.randn(images.shape, generator=chance) * between(0.02, 0.12).view(-1, 1, 1, 1)
    return (images + grain).clamp_(0, 1).mul_(255).round_().to(torch.uint8)


@cache
def drawings() -> Tensor:
    """(characters, fonts, side, side) bytes: every character in every font, in the middle."""
    import matplotlib
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    side = FINE * SIDE
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    found = torch.empty(len(CHARACTERS), len(FONTS), side, side, dtype=torch.uint8)
    for column, name in enumerate(FONTS):
        # Basic layout: the other one is not everywhere, and a single character needs none.
        font = ImageFont.truetype(
            str(folder / f"{name}.ttf"), math.ceil(0.6 * side), layout_engine=ImageFont.Layout.BASIC
        )
        for line, character in enumerate(CHARACTERS):
            image = Image.new("L", (side, side))
            box = font.getbbox(character)
            corner = ((side - box[0] - box[2]) / 2, (side - box[1] - box[3]) / 2)
            ImageDraw.Draw(image).text(corner, character, fill=255, font=font)
            found[line, column] = torch.from_numpy(np.array(image))
    return found
