"""One image file: how large it is, and its pixels as bytes in the form that a network takes.

Colour is red, green, blue; cameras' orientation is applied; transparent parts are white; of an
animation the first frame counts; 16 bits a channel become 8. Images of another size than asked for
are resized, bilinear over all pixels that fall into one (so that small lines do not flicker): the
whole image is stretched, or its middle, as wide or high as it is, covers what was asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

Pixels = NDArray[np.uint8]
Form = tuple[int, int, int]
"""Channels, height, width."""
Fit = Literal["stretch", "cover"]
"""How an image of other proportions becomes that high and wide."""

SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif", ".bmp", ".dib", ".webp"),
        *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif"),
    )
)
# Not all that Pillow knows: EPS, for one, is a program that another program would run.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF")
MOST_PIXELS = 1 << 27  # 134 million: more than cameras make, less than fills the memory
GREY = frozenset({"1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N"})
DEEP = 257  # 65535 / 255, from 16 bits to 8
ORIENTATION = 0x0112  # the EXIF tag
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
LYING = 5  # from this orientation on, height and width change places


class Unreadable(Exception):  # noqa: N818 - what a file is, not what went wrong with the program
    """A file that is no image, or a damaged one; says why in a few words."""


class Look(NamedTuple):
    """What the header of an image file says, the camera's orientation applied."""

    height: int
    width: int
    grey: bool


def look(path: str) -> Look:
    """Read the header of an image file, not its pixels."""
    with quiet(), _opened(path) as image:
        width, height = image.size
        # Pillow turns TIFF by itself, and says the turned size.
        if image.format != "TIFF" and _orientation(image) >= LYING:
            width, height = height, width
        return Look(height, width, image.mode in GREY)


def decode(path: str, form: Form, fit: Fit = "stretch") -> Pixels:
    """Read an image file as (channels, height, width) bytes, 1 channel or 3."""
    with quiet():
        return np.ascontiguousarray(pixels_of(path, form, fit))


def pixels_of(path: str, form: Form, fit: Fit) -> Pixels:
    """`decode` for who reads many, is `quiet` meanwhile and puts each into its place."""
    channels, height, width = form
    with _opened(path) as image:
        # JPEG can be decoded at a half, a quarter, an eighth; twice the size leaves room to smooth:
        # it differs no more from all pixels than bicubic does from bilinear (docs/scale.md).
        # Both sides stay at least that long, so that it is enough to cover, too.
        image.draft(None, (2 * max(height, width),) * 2)
        image.load()
        plain = _plain(_turned(image))
        mode = "L" if channels == 1 else "RGB"
        if plain.mode != mode:  # else it would be copied
            plain = plain.convert(mode)
        if plain.size != (width, height):
            box = _middle(plain.size, (width, height)) if fit == "cover" else None
            plain = plain.resize((width, height), Image.Resampling.BILINEAR, box)
        pixels = np.asarray(plain, dtype=np.uint8)
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)


def _middle(size: tuple[int, int], asked: tuple[int, int]) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of the largest part in the middle with the proportions asked for."""
    share = min(size[0] / asked[0], size[1] / asked[1])
    width, height = asked[0] * share, asked[1] * share
    left, top = (size[0] - width) / 2, (size[1] - height) / 2
    return left, top, min(left + width, size[0]), min(top + height, size[1])


@contextmanager
def quiet() -> Iterator[None]:
    """Where Pillow does not warn of odd but readable files, nor of size, which is checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _opened(path: str) -> Iterator[Image.Image]:
    """An open image; whatever is wrong with it becomes `Unreadable`."""
    try:
        with Image.open(path, formats=formats()) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Unreadable(f"{image.width}x{image.height} pixels are too many")
            yield image
    except Unreadable:
        raise
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise Unreadable(_why(error)) from error


@cache
def formats() -> tuple[str, ...]:
    """Those of FORMATS that this Pillow was built with; it imports all of its decoders."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _why(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "no image"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__


def _orientation(image: Image.Image) -> int:
    try:
        found: Any = image.getexif().get(ORIENTATION, 1)
    except Exception:  # damaged notes of the camera do not make the picture unreadable
        return 1
    return found if found in TURNS else 1


def _turned(image: Image.Image) -> Image.Image:
    orientation = _orientation(image)
    return image.transpose(TURNS[orientation]) if orientation in TURNS else image


def _plain(image: Image.Image) -> Image.Image:
    """8 bits a channel and nothing transparent; `convert` alone cuts off deep pixels."""
    if image.mode in {"I", "F"} or image.mode.startswith("I;16"):
        return Image.fromarray(_shallow(np.asarray(image)))
    if image.has_transparency_data:
        cover = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", cover.size, "white"), cover)
    return image


def _shallow(values: NDArray[Any]) -> Pixels:
    """Grey of 16 bits, or of floats in [0, 1] or in [0, 255], in 8 bits."""
    if values.dtype.kind == "f":
        finite = np.nan_to_num(values.astype(np.float64))
        scaled = finite * 255 if finite.max() <= 1 else finite
    else:
        scaled = values.astype(np.float64) / DEEP
    return scaled.clip(0, 255).round().astype(np.uint8)
