"""Crops and flips against loops over images and pixels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from labelnoise.data.augment import LARGE, PADDING, crop_and_flip, crop_to


def numbered(batch: int, channels: int, height: int, width: int, dtype: torch.dtype) -> Tensor:
    """Images whose pixels are all different within an image and never 0."""
    pixels = channels * height * width
    values = 1 + torch.arange(pixels).repeat(batch, 1) + torch.arange(batch)[:, None]
    return values.view(batch, channels, height, width).to(dtype)


def moved(image: Tensor, down: int, right: int, *, mirrored: bool) -> Tensor:
    """One image, pixel by pixel: what is shifted in from outside is 0."""
    _, height, width = image.shape
    result = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            source_row = row + down
            source_column = (width - 1 - column if mirrored else column) + right
            if 0 <= source_row < height and 0 <= source_column < width:
                result[:, row, column] = image[:, source_row, source_column]
    return result


def test_the_draws_say_what_happens_to_each_image() -> None:
    images = numbered(32, 3, 7, 6, torch.uint8)
    found = crop_and_flip(images, torch.Generator().manual_seed(0))
    down, right, mirror = torch.rand(3, 32, generator=torch.Generator().manual_seed(0)).tolist()
    for i, image in enumerate(images):
        expected = moved(
            image,
            int(down[i] * (2 * PADDING + 1)) - PADDING,
            int(right[i] * (2 * PADDING + 1)) - PADDING,
            mirrored=mirror[i] < 0.5,
        )
        assert found[i].equal(expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_nothing_happens_but_shifts_and_mirrors(dtype: torch.dtype) -> None:
    images = numbered(40, 1, 5, 6, dtype)
    found = crop_and_flip(images, torch.Generator().manual_seed(1))
    assert found.dtype == dtype
    assert found.shape == images.shape
    assert found.is_contiguous()
    reach = range(-PADDING, PADDING + 1)
    for before, after in zip(images, found, strict=True):
        assert any(
            after.equal(moved(before, down, right, mirrored=mirrored))
            for down in reach
            for right in reach
            for mirrored in (False, True)
        )


def test_every_shift_occurs_and_half_of_the_images_are_mirrored() -> None:
    images = torch.zeros(4_000, 1, 9, 10)
    images[:, 0, 4, 4] = 1  # stays inside; its mirror image starts at column 5
    found = crop_and_flip(images, torch.Generator().manual_seed(2))
    rows = found.sum(dim=(1, 3)).argmax(dim=1)
    assert torch.bincount(rows, minlength=9).min() > 4_000 / 9 * 0.7
    pairs = torch.zeros(4_000, 1, 1, 2)
    pairs[..., 0], pairs[..., 1] = 1, 2
    wide = torch.nn.functional.pad(pairs, [4, 4, 4, 4])
    turned = crop_and_flip(wide, torch.Generator().manual_seed(3)).flatten(1)
    order = turned.argmax(dim=1) - (turned == 1).int().argmax(dim=1)
    whole = (turned.sum(dim=1) == 3) & (order.abs() == 1)
    mirrored = (order[whole] == -1).double().mean()
    assert abs(float(mirrored) - 0.5) < 0.05


def test_the_images_themselves_stay() -> None:
    images = numbered(8, 3, 6, 6, torch.float32)
    before = images.clone()
    crop_and_flip(images, torch.Generator().manual_seed(0)).zero_()
    assert images.equal(before)


@pytest.mark.parametrize("extreme", [0.0, 1 - 2**-24])
def test_the_extreme_draws_stay_inside(extreme: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest float32 below 1 must not round up to a shift of 9."""
    images = numbered(2, 1, 6, 6, torch.float32)
    drawn = torch.full((3, 2), extreme)
    monkeypatch.setattr(torch, "rand", lambda *sizes, generator: drawn)
    found = crop_and_flip(images, torch.Generator())
    shift = -PADDING if extreme == 0 else PADDING
    assert found[0].equal(moved(images[0], shift, shift, mirrored=extreme == 0))


# --- a part of a larger image ---------------------------------------------------------------------


@pytest.mark.parametrize("side", [4, 80])  # small ones are cut out at once, large ones in turn
def test_the_draws_say_which_part_is_seen(side: int) -> None:
    assert (3 * side**2 >= LARGE) is (side == 80)
    images = numbered(40, 3, side + 5, side + 3, torch.int64)
    found = crop_to(side)(images, torch.Generator().manual_seed(0))
    draws = torch.rand(3, 40, generator=torch.Generator().manual_seed(0)).tolist()
    assert found.shape == (40, 3, side, side)
    assert found.is_contiguous()
    for image, part, down, right, mirror in zip(images, found, *draws, strict=True):
        top, left = int(down * 6), int(right * 4)
        expected = image[:, top : top + side, left : left + side]
        assert part.equal(expected.flip(2) if mirror < 0.5 else expected)


@pytest.mark.parametrize("side", [4, 80])
def test_of_no_image_there_is_no_part(side: int) -> None:
    images = numbered(0, 3, side + 1, side, torch.uint8)
    assert crop_to(side)(images, torch.Generator()).shape == (0, 3, side, side)


def test_every_place_occurs_and_nothing_is_padded() -> None:
    images = 1 + torch.arange(25).view(1, 1, 5, 5).expand(3_000, 1, 5, 5)
    found = crop_to(3)(images, torch.Generator().manual_seed(0))
    corners = torch.minimum(found[:, 0, 0, 0], found[:, 0, 0, 2])
    counts = torch.bincount(corners, minlength=14)
    assert set(counts.nonzero().flatten().tolist()) == {1, 2, 3, 6, 7, 8, 11, 12, 13}
    assert counts[counts > 0].min() > 3_000 / 9 * 0.7
    mirrored = (found[:, 0, 0, 0] > found[:, 0, 0, 2]).double().mean()
    assert abs(float(mirrored) - 0.5) < 0.05


def test_a_crop_of_the_whole_image_only_mirrors() -> None:
    images = numbered(8, 1, 4, 4, torch.uint8)
    for before, after in zip(images, crop_to(4)(images, torch.Generator()), strict=True):
        assert after.equal(before) or after.equal(before.flip(2))


@pytest.mark.parametrize("room", [1, 2, 3, 8, 9, 33, 64, 1025])
def test_the_largest_draw_stays_inside(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images = numbered(1, 1, room, room, torch.int64)
    monkeypatch.setattr(torch, "rand", lambda *sizes, generator: torch.full((3, 1), 1 - 2**-24))
    assert int(crop_to(1)(images, torch.Generator())) == int(images[0, 0, -1, -1])
