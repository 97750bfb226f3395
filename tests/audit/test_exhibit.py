"""How a sample is shown."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from labelnoise.audit.exhibit import FEW, MOST_COLUMNS, SHARP, SIDE, exhibits, file_of
from labelnoise.data.dataset import Dataset
from labelnoise.data.folder import read_folder

from .found import findings_of


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
    assert (shown.size, shown.format) == ((SHARP * 2 // 3, SHARP), "JPEG")
    many = picture(next(exhibits(dataset_of(pixels), [0] * (FEW + 1))))
    assert many.size == (SIDE * 2 // 3, SIDE)


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
    assert first.size == (192, 96)
    assert second.size == third.size == (32, 32)
    assert [file_of(dataset, row) is None for row in range(3)] == [False, False, True]


@pytest.mark.parametrize("memory", [0, None])
def test_images_in_files_are_shown_wherever_they_are(tmp_path: Path, memory: int | None) -> None:
    for name in ("cat/a.png", "dog/b.png"):
        (tmp_path / name).parent.mkdir()
        Image.new("RGB", (60, 60), "red").save(tmp_path / name)
    data = read_folder(tmp_path, memory=memory)
    assert [picture(shown).size for shown in exhibits(data, [1, 0])] == [(60, 60)] * 2
    moved = replace(data, ids=("x", "y"))  # what was read is shown where there is no file
    assert [picture(shown).size for shown in exhibits(moved, [1, 0])] == [(32, 32)] * 2


def test_originals_are_a_table_or_a_text() -> None:
    inputs = torch.zeros(1, 3)
    table = next(exhibits(dataset_of(inputs, originals=({"age": "31", "note": "x" * 500},)), [0]))
    assert table["table"][0] == ("age", "31")
    assert len(table["table"][1][1]) == 200
    text = next(exhibits(dataset_of(inputs, originals=({"text": "some words"},)), [0]))
    assert text == {"text": "some words"}


def test_plain_features_are_numbers_and_not_too_many() -> None:
    inputs = torch.arange(100, dtype=torch.float32).reshape(1, 100) / 3
    shown = next(exhibits(dataset_of(inputs), [0]))
    assert shown["table"][1] == ("x1", "0.3333")
    assert (len(shown["table"]), shown["left"]) == (MOST_COLUMNS, 100 - MOST_COLUMNS)


def test_columns_that_speak_against_the_label_come_first() -> None:
    """Sample 0 is as tall and as loud as a dog, but called a cat; its age says nothing."""
    pets = [{"age": "5", "height": "60", "sound": "bark", "seen": ""}]
    pets += [{"age": f"{row % 9}", "height": f"{25 + row % 3}", "sound": "meow", "seen": "x"}
             for row in range(30)]  # fmt: skip
    pets += [{"age": f"{row % 9}", "height": f"{59 + row % 3}", "sound": "bark", "seen": "x"}
             for row in range(30)]  # fmt: skip
    labels = torch.tensor([0] * 31 + [1] * 30)
    dataset = Dataset("mine.csv", torch.zeros(61, 1), labels, ("cat", "dog"), originals=pets)
    shown = next(exhibits(dataset, [0], findings_of(dataset, {0: 1})))["table"]
    assert shown[0] == ("height", "60", "26", "60")
    assert shown[1] == ("sound", "bark", "meow", "bark")
    assert {line[0] for line in shown[2:]} == {"age", "seen"}
    assert {line[0]: line[2:] for line in shown}["age"] == ("3.5", "3.5")


def test_numbers_are_read_as_the_encoder_reads_them() -> None:
    """With words for what is missing (shown as nothing), commas, decimal commas, and as dates."""

    def pet(row: int, dog: bool) -> dict[str, str]:
        return {
            "height": "NA" if row % 5 == 0 else f"{(60 if dog else 25) + row % 3}",
            "steps": f"{10 if dog else 2},{100 + row}",
            "share": f"{int(dog)},{5 + row % 2}",
            "born": f"{2020 if dog else 2010}-03-{row + 1:02}",
            "seen": "?",
        }  # fmt: skip

    pets = [pet(1, True), *(pet(row, False) for row in range(20))]
    pets += [pet(row, True) for row in range(20)]
    pets[0] |= {"height": "n/a"}
    labels = torch.tensor([0] * 21 + [1] * 20)
    dataset = Dataset("mine.csv", torch.zeros(41, 1), labels, ("cat", "dog"), originals=pets)
    shown = next(exhibits(dataset, [0], findings_of(dataset, {0: 1})))["table"]
    assert {line[0]: line[1:] for line in shown} == {
        "height": ("", "26", "61"),
        "steps": ("10,101", "2110", "1.011e+04"),
        "share": ("1,6", "0.55", "1.55"),
        "born": ("2020-03-02", "2010-03-10", "2020-03-10"),
        "seen": ("", "", ""),
    }
    assert {line[0] for line in shown[:3]} == {"steps", "share", "born"}


def test_what_is_usual_is_taken_from_labels_that_are_not_flagged() -> None:
    values = torch.tensor([[1.0], [1.0], [9.0], [9.0], [9.0], [5.0], [5.0]])
    labels = torch.tensor([0, 0, 0, 0, 0, 1, 1])
    dataset = Dataset("mine.npz", values, labels, ("a", "b"))
    found = findings_of(dataset, {2: 1, 3: 1, 4: 1})
    assert next(exhibits(dataset, [2], found))["table"] == [("x0", "9", "1", "5")]
    everything = findings_of(dataset, dict.fromkeys(range(7), 0))
    assert next(exhibits(dataset, [5], everything))["table"] == [("x0", "5", "5", "9")]


def test_images_that_do_not_fit_in_memory_are_shown_all_the_same(tmp_path: Path) -> None:
    for number, kind in enumerate(("cat", "dog")):
        (tmp_path / kind).mkdir()
        Image.new("L", (8, 8), 100 * number).save(tmp_path / kind / "1.png")
    dataset = read_folder(tmp_path, memory=0)
    assert not isinstance(dataset.inputs, torch.Tensor)
    for row, name in enumerate(dataset.ids):
        (tmp_path / name).rename(tmp_path / name.replace("1.png", f"gone{row}"))
    with pytest.warns(UserWarning, match="cannot be read"):
        assert np.asarray(picture(next(exhibits(dataset, [1])))).max() == 0
    (tmp_path / "dog" / "gone1").rename(tmp_path / "dog" / "1.png")
    assert np.asarray(picture(next(exhibits(dataset, [1])))).max() == 100
