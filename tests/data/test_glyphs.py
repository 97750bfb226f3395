"""The characters that are drawn."""

from __future__ import annotations

import pytest
import torch

from labelnoise.data import Dataset, read
from labelnoise.data.glyphs import CHARACTERS, FONTS, drawings


@pytest.fixture(scope="module")
def glyphs() -> Dataset:
    return read("glyphs")


def test_a_hundred_classes_of_equal_size(glyphs: Dataset) -> None:
    assert glyphs.test_inputs is not None
    assert glyphs.test_labels is not None
    assert glyphs.inputs.shape == (20_000, 1, 28, 28)
    assert glyphs.inputs.dtype == torch.uint8
    assert glyphs.test_inputs.shape == (4_000, 1, 28, 28)
    assert torch.bincount(glyphs.labels).tolist() == [200] * 100
    assert torch.bincount(glyphs.test_labels).tolist() == [40] * 100
    assert len(set(glyphs.classes)) == 100
    assert glyphs.verified


def test_what_is_drawn_is_always_the_same(glyphs: Dataset) -> None:
    again = read("glyphs")
    assert again.inputs[:].equal(glyphs.inputs[:])
    assert again.labels.equal(glyphs.labels)
    assert not glyphs.labels.equal(glyphs.labels.sort().values)


def test_no_image_comes_twice(glyphs: Dataset) -> None:
    assert glyphs.test_inputs is not None
    every = torch.cat([glyphs.inputs[:], glyphs.test_inputs[:]]).flatten(1)
    assert len({row.numpy().tobytes() for row in every}) == len(every)


def test_every_font_has_every_character_and_none_is_cut_off() -> None:
    plain = drawings()
    assert plain.shape[:2] == (len(CHARACTERS), len(FONTS))
    ink = plain.flatten(2).double().sum(dim=2)
    assert ink.min() > 255 * 20  # pixels
    edges = torch.cat([plain[..., 0, :], plain[..., -1, :], plain[..., 0], plain[..., -1]], dim=-1)
    assert edges.max() == 0
    for font in range(len(FONTS)):  # a font draws what it does not have as one and the same box
        assert len({drawing.numpy().tobytes() for drawing in plain[:, font]}) == len(CHARACTERS)


def test_characters_can_be_told_apart_but_not_by_their_mean_images_alone(glyphs: Dataset) -> None:
    assert glyphs.test_inputs is not None
    assert glyphs.test_labels is not None
    flat = glyphs.inputs[:].flatten(1).float()
    means = torch.stack([flat[glyphs.labels == k].mean(dim=0) for k in range(100)])
    nearest = torch.cdist(glyphs.test_inputs[:].flatten(1).float(), means).argmin(dim=1)
    assert 0.4 < float((nearest == glyphs.test_labels).double().mean()) < 0.9
