"""How a sample is shown."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from labelnoise.audit.exhibit import MOST_COLUMNS, SIDE, exhibits, file_of
from labelnoise.data.dataset import Dataset


def dataset_of(inputs: torch.Tensor, **more: Any) -> Dataset:
    return Dataset("mine", inputs, torch.zeros(len(inputs), dtype=torch.long), ("a", "b"), **more)


def picture(exhibit: dict[str, Any]) -> Image.Image:
    kind, data = exhibit["image"].split(",", 1)
    assert kind in ("data:image/png;base64", "data:image/jpeg;base64")
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_a_small_grey_image_is_kept_to_the_pixel() -> None:
    pixels = torch.arange(2 * 64, dtype=torch.uint8).reshape(2, 1, 8, 8)
    shown = [picture(one) for one in exhibits(dataset_of(pixels), [1, 0])]
    assert [one.size for one in shown] == [(8, 8), (8, 8)]
    assert np.array_equal(np.asarray(shown[0]), pixels[1, 0].numpy())


def test_numbers_of_any_range_have_one_range_from_black_to_white() -> None:
    images = torch.tensor([[-2.0, 0.0], [1.0, 2.0]]).reshape(2, 1, 1, 2)
    shown = [
        np.asarray(picture(one)).ravel().tolist() for one in exhibits(dataset_of(images), [0, 1])
    ]
    assert shown == [[0, 128], [191, 255]]
    grey = torch.tensor([[0.0, 16.0]]).reshape(1, 1, 1, 2)
    assert np.asarray(picture(next(exhibits(dataset_of(grey), [0])))).ravel().tolist() == [0, 255]
    flat = torch.zeros(1, 1, 2, 2)
    assert np.asarray(picture(next(exhibits(dataset_of(flat), [0])))).max() == 0


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "L"), (3, "RGB"), (4, "RGBA")])
def test_channels_become_grey_or_colour(channels: int, mode: str) -> None:
    pixels = torch.full((1, channels, 5, 7), 200, dtype=torch.uint8)
    shown = picture(next(exhibits(dataset_of(pixels), [0])))
    assert (shown.mode, shown.size) == (mode, (7, 5))


def test_a_large_image_is_made_small() -> None:
    pixels = torch.randint(0, 256, (1, 3, 300, 200), dtype=torch.uint8)
    shown = picture(next(exhibits(dataset_of(pixels), [0])))
    assert (shown.size, shown.format) == ((SIDE * 2 // 3, SIDE), "JPEG")


def test_a_file_is_shown_itself_sharper_than_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (200, 100), (255, 0, 0)).save(tmp_path / "cat" / "1.png")
    (tmp_path / "cat" / "2.png").write_bytes(b"no image any more")
    black = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)
    ids = ("cat/1.png", "cat/2.png", "cat/gone.png")
    dataset = Dataset(
        str(tmp_path), black, torch.zeros(3, dtype=torch.long), ("cat", "dog"), ids=ids
    )
    first, second, third = (picture(one) for one in exhibits(dataset, [0, 1, 2]))
    assert first.size == (96, 48)
    assert second.size == third.size == (32, 32)
    assert [file_of(dataset, row) is None for row in range(3)] == [False, False, True]


def test_originals_are_a_table_or_a_text() -> None:
    inputs = torch.zeros(2, 3)
    rows = ({"age": "31", "note": "x" * 500}, {"text": "some words"})
    table, text = exhibits(dataset_of(inputs, originals=rows), [0, 1])
    assert table["table"][0] == ("age", "31")
    assert len(table["table"][1][1]) == 200
    assert text == {"text": "some words"}


def test_plain_features_are_numbers_and_not_too_many() -> None:
    inputs = torch.arange(100, dtype=torch.float32).reshape(1, 100) / 3
    shown = next(exhibits(dataset_of(inputs), [0]))
    assert shown["table"][1] == ("x1", "0.3333")
    assert (len(shown["table"]), shown["left"]) == (MOST_COLUMNS, 100 - MOST_COLUMNS)
