from __future__ import annotations

import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labelnoise.data.images import MOST_PIXELS, Unreadable, decode, look

from .pictures import noise, save, truncated


def channels_first(image: Image.Image) -> np.ndarray:
    return np.asarray(image).transpose(2, 0, 1)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff", ".ppm"])
def test_pixels_of_the_right_size_come_as_they_are(tmp_path: Path, suffix: str) -> None:
    image = noise(5, 7)
    path = str(save(tmp_path / f"a{suffix}", image))
    assert look(path) == (5, 7, False)
    found = decode(path, (3, 5, 7))
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous
    assert (found == channels_first(image)).all()


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".gif"])
def test_lossy_formats(tmp_path: Path, suffix: str) -> None:
    image = Image.new("RGB", (8, 8), (200, 100, 50))
    found = decode(str(save(tmp_path / f"a{suffix}", image)), (3, 8, 8))
    assert np.abs(found.astype(int) - channels_first(image)).max() < 8


def test_grey_files_are_known_by_their_header(tmp_path: Path) -> None:
    for mode in ("L", "LA", "1", "I;16"):
        assert look(str(save(tmp_path / "a.png", Image.new(mode, (4, 3))))) == (3, 4, True)
    for mode in ("RGB", "RGBA", "P"):
        assert look(str(save(tmp_path / "a.png", Image.new(mode, (4, 3))))) == (3, 4, False)


def test_grey_becomes_colour_and_colour_grey(tmp_path: Path) -> None:
    grey = noise(4, 4, channels=1)
    found = decode(str(save(tmp_path / "grey.png", grey)), (3, 4, 4))
    assert (found == np.asarray(grey)).all()  # all three channels
    red = Image.new("RGB", (4, 4), (255, 0, 0))
    luminance = decode(str(save(tmp_path / "red.png", red)), (1, 4, 4))
    assert luminance.shape == (1, 4, 4)
    assert (luminance == 76).all()  # 0.299 * 255


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tiff", ".webp"])
def test_the_cameras_orientation_is_applied(tmp_path: Path, orientation: int, suffix: str) -> None:
    upright = np.zeros((8, 16), dtype=np.uint8)
    upright[:4, :4] = 255  # the corner on the top left
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: upright.T[::-1, ::1],  # to be turned clockwise
        7: upright.T[::-1, ::-1],
        8: upright.T[:, ::-1],
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.ascontiguousarray(stored[orientation][..., None].repeat(3, axis=2))
    path = str(save(tmp_path / f"a{suffix}", Image.fromarray(pixels), exif=exif))
    assert look(path)[:2] == (8, 16)
    found = decode(path, (1, 8, 16))[0]
    assert ((found > 128) == (upright > 128)).all()


def test_damaged_notes_of_the_camera_do_not_matter(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", Image.new("RGB", (8, 8), "red"), exif=b"Exif\0\0nonsense")
    assert look(str(path)) == (8, 8, False)
    assert decode(str(path), (3, 8, 8))[0].min() > 240


def test_16_bits_become_8(tmp_path: Path) -> None:
    deep = np.array([[0, 257 * 10], [257 * 128, 65535]], dtype=np.uint16)
    for suffix in (".png", ".tiff"):
        path = str(save(tmp_path / f"a{suffix}", Image.fromarray(deep)))
        assert decode(path, (1, 2, 2)).tolist() == [[[0, 10], [128, 255]]]


@pytest.mark.parametrize("largest", [1.0, 255.0])
def test_floats_of_either_habit(tmp_path: Path, largest: float) -> None:
    values = np.array([[0, 0.2], [0.6, 1]], dtype=np.float32) * np.float32(largest)
    path = str(save(tmp_path / "a.tiff", Image.fromarray(values)))
    assert decode(path, (1, 2, 2)).tolist() == [[[0, 51], [153, 255]]]


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    image = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    image.putpixel((1, 0), (0, 0, 0, 0))
    for suffix in (".png", ".webp"):
        path = str(save(tmp_path / f"a{suffix}", image, lossless=True))
        assert decode(path, (3, 1, 2)).tolist() == [[[255, 255]], [[0, 255]], [[0, 255]]]
    grey = Image.new("LA", (1, 1), (0, 0))
    assert decode(str(save(tmp_path / "grey.png", grey)), (1, 1, 1)).tolist() == [[[255]]]


def test_palettes_with_and_without_transparency(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    plain = decode(str(save(tmp_path / "a.png", image)), (3, 1, 2))
    assert plain.tolist() == [[[255, 0]], [[0, 0]], [[0, 255]]]
    for suffix in (".png", ".gif"):
        path = str(save(tmp_path / f"clear{suffix}", image, transparency=1))
        assert decode(path, (3, 1, 2)).tolist() == [[[255, 255]], [[0, 255]], [[0, 255]]]


def test_cmyk(tmp_path: Path) -> None:
    for suffix in (".jpg", ".tiff"):
        image = Image.new("CMYK", (8, 8), (0, 255, 255, 0))  # no cyan: red
        found = decode(str(save(tmp_path / f"a{suffix}", image)), (3, 8, 8))
        assert found[0].min() > 240
        assert found[1:].max() < 15


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png", ".tiff"])
def test_of_an_animation_the_first_frame(tmp_path: Path, suffix: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "green")]
    path = str(save(tmp_path / f"a{suffix}", frames[0], save_all=True, append_images=frames[1:]))
    found = decode(path, (3, 8, 8))
    assert found[0].min() > 240
    assert found[1:].max() < 15


def test_resizing_looks_at_every_pixel(tmp_path: Path) -> None:
    """Lines one pixel wide become an even grey; taking every eighth pixel makes black or white."""
    lines = np.zeros((256, 256), dtype=np.uint8)
    lines[::2] = 255
    found = decode(str(save(tmp_path / "a.png", Image.fromarray(lines))), (1, 32, 32))
    assert found[0, 1:-1].min() > 110
    assert found[0, 1:-1].max() < 145


def test_small_images_grow(tmp_path: Path) -> None:
    path = str(save(tmp_path / "a.png", Image.new("RGB", (1, 3), (1, 2, 3))))
    found = decode(path, (3, 32, 32))
    assert [channel.tolist() for channel in found[:, 0, 0]] == [1, 2, 3]
    assert (found == found[:, :1, :1]).all()


def test_large_photographs_are_decoded_at_a_fraction(tmp_path: Path) -> None:
    """As a whole they would take the same, but for rounding, and much longer."""
    ramp = np.linspace(0, 255, 2048).astype(np.uint8)
    image = Image.fromarray(np.broadcast_to(ramp[:, None], (2048, 3072)).copy()).convert("RGB")
    path = save(tmp_path / "a.jpg", image)
    whole = np.asarray(Image.open(path).resize((32, 32), Image.Resampling.BILINEAR))
    found = decode(str(path), (3, 32, 32))
    assert np.abs(found.astype(int) - whole.transpose(2, 0, 1)).max() < 6


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an image",
        b"\xff\xd8\xff\xe0\x00\x10JFIF",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 50,
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\nshowpage\n",  # a program, never run
        b"GIF89a\x05\x00\x05\x00\x80\x00\x00",
        b"BM" + b"\xff" * 60,
        b"P6 5 5 255\n\x00",
    ],
)
def test_what_is_no_image_is_unreadable(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(Unreadable) as error:
        decode(str(path), (3, 8, 8))
    assert str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp", ".tiff", ".gif"])
def test_a_truncated_image_is_unreadable(tmp_path: Path, suffix: str) -> None:
    path = truncated(save(tmp_path / f"a{suffix}", noise(64, 64)))
    with pytest.raises(Unreadable):
        decode(str(path), (3, 32, 32))


def test_every_damaged_byte_gives_pixels_or_unreadable(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    path = tmp_path / "a"
    for suffix in (".jpg", ".png", ".gif", ".tiff", ".webp", ".bmp"):
        whole = save(tmp_path / f"b{suffix}", noise(16, 16)).read_bytes()
        for _ in range(60):
            damaged = bytearray(whole)
            for place in chance.integers(0, len(whole), 3):
                damaged[place] = chance.integers(256)
            path.write_bytes(damaged)
            try:
                assert decode(str(path), (3, 8, 8)).shape == (3, 8, 8)
            except Unreadable as error:
                assert str(error)  # noqa: PT017 - either may happen


def test_files_that_are_not_there_or_not_files(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="No such file"):
        look(str(tmp_path / "absent.png"))
    with pytest.raises(Unreadable, match="directory"):
        look(str(tmp_path))


def test_a_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    """A few hundred bytes that promise thousands of millions of pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    for side in (100_000, 12_000):
        assert side**2 > MOST_PIXELS
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
        path = tmp_path / "bomb.png"
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b""))
        with pytest.raises(Unreadable, match="too many"):
            decode(str(path), (3, 32, 32))
        with pytest.raises(Unreadable, match="too many"):
            look(str(path))


def test_nothing_is_said_of_odd_but_readable_files(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    path = save(tmp_path / "a.png", image, transparency=b"\x00\x80")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decode(str(path), (3, 2, 2))


def test_pillow_is_not_needed_to_start() -> None:
    program = "import sys, labelnoise, labelnoise.cli; print('PIL' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("size", [(40, 20), (20, 40), (800, 400)])
def test_the_middle_covers_what_is_asked_for(tmp_path: Path, size: tuple[int, int]) -> None:
    """The sides that stick out are red; stretched, they are seen, covered, they are not."""
    width, height = size
    image = Image.new("RGB", size, "red")
    short = min(size)
    image.paste(
        "blue",
        ((width - short) // 2, (height - short) // 2, (width + short) // 2, (height + short) // 2),
    )
    path = str(save(tmp_path / "a.jpg", image, quality=95, subsampling=0))
    red, _, blue = decode(path, (3, 16, 16), "cover").astype(int)
    assert blue[1:-1, 1:-1].min() > 180  # resized pixels reach over the edge a little
    assert red[1:-1, 1:-1].max() < 80
    assert decode(path, (3, 16, 16), "stretch")[0].max() > 200


def test_the_middle_of_an_image_of_the_right_proportions_is_all_of_it(tmp_path: Path) -> None:
    path = str(save(tmp_path / "a.png", noise(30, 30)))
    assert (decode(path, (3, 7, 7), "cover") == decode(path, (3, 7, 7), "stretch")).all()


def test_jpeg_is_decoded_at_a_reduced_scale_when_it_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(save(tmp_path / "a.jpg", noise(640, 960)))
    loaded = []
    load = Image.Image.load

    def noting(image: Image.Image) -> object:
        loaded.append(image.size)
        return load(image)

    monkeypatch.setattr(Image.Image, "load", noting)
    decode(path, (3, 64, 64), "cover")
    assert (240, 160) in loaded


def test_four_inks_are_colours(tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 8), (200, 30, 60)).convert("CMYK")
    found = decode(str(save(tmp_path / "inks.jpg", image, quality=95)), (3, 4, 4))
    assert np.abs(found[:, 1, 1].astype(int) - [200, 30, 60]).max() < 12
