"""Food-101N, WebVision and ANIMAL-10N."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from labelnoise.data import read
from labelnoise.data.stored import walk
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.parts import divide
from labelnoise.noise import parse

from .web import animals, food, photo, webvision, write


def test_food(tmp_path: Path) -> None:
    root = food(tmp_path)
    dataset = read("food101n", tmp_path)
    assert dataset.classes == ("apple_pie", "beignets")
    assert list(dataset.ids) == [
        *(f"images/apple_pie/{row}.jpg" for row in (1, 2, 3)),  # what was verified does not train
        *(f"images/beignets/{row}.jpg" for row in (0, 3)),
    ]
    assert dataset.labels.tolist() == [0, 0, 0, 1, 1]
    assert dataset.inputs.shape == (5, 3, 256, 256)
    parts = divide(dataset, parse("none"), 0)
    assert parts.validation.given.tolist() == [0, 1]  # of those that were found right
    assert parts.test.labels.tolist() == [0, 1]
    assert torch.cat(list(walk(parts.test.inputs, 9))).shape == (2, 3, 256, 256)
    write(root / "meta/imagelist.tsv", ["class_name/key", "sushi/1.jpg"])
    with pytest.raises(LabelNoiseError, match=r"imagelist.tsv has the class 'sushi', which"):
        read("food101n", tmp_path)
    write(root / "meta/imagelist.tsv", ["class_name/key", "../sushi/1.jpg"])
    with pytest.raises(LabelNoiseError, match=r"imagelist.tsv, line 2: .* leads out"):
        read("food101n", tmp_path)


def test_food_needs_two_folders(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"Food-101N_release .*; food101n: no .*/food-101 "):
        read("food101n", tmp_path)
    food(tmp_path)
    (tmp_path / "food-101/images/beignets").rename(tmp_path / "aside")
    expected = r"food-101 lacks 1 folder with 1 of its 2 .*'images/beignets'\): unpack http://data"
    with pytest.raises(LabelNoiseError, match=expected):
        read("food101n", tmp_path)
    shutil.rmtree(tmp_path / "food-101/meta")
    with pytest.raises(LabelNoiseError, match=r"food-101 lacks meta/test.txt: unpack http"):
        read("food101n", tmp_path)
    shutil.rmtree(tmp_path / "Food-101N_release/images")
    both = r"Food-101N_release lacks images/: unpack Food-101N.*food-101 lacks meta/test.txt"
    with pytest.raises(LabelNoiseError, match=both):
        read("food101n", tmp_path)


def test_webvision(tmp_path: Path) -> None:
    root = webvision(tmp_path)
    dataset = read("webvision-mini", tmp_path)
    assert dataset.labels.tolist() == [0, 49, 7, 0, 49, 7]  # none of class 50
    assert dataset.inputs.shape == (6, 3, 320, 320)
    assert dataset.test_labels is not None
    assert dataset.test_labels.tolist() == [0, 49]
    assert dataset.classes[7] == "7"
    write(root / "info/synsets.txt", [f"n{row:08d} animal {row}, beast" for row in range(1000)])
    assert read("webvision-mini", tmp_path).classes[49] == "animal 49, beast"
    write(root / "info/train_filelist_google.txt", ["google/q0001/0.jpg 77"])
    with pytest.raises(LabelNoiseError, match="no file has a label below 50"):
        read("webvision-mini", tmp_path)


def test_animals(tmp_path: Path) -> None:
    root = animals(tmp_path)
    dataset = read("animal10n", tmp_path)
    assert dataset.labels.tolist() == [label for label in range(10) for _ in range(2)]
    assert dataset.inputs.shape == (20, 3, 64, 64)
    assert dataset.ids[3] == "training/1_00001.jpg"
    assert dataset.test_labels is not None
    assert dataset.test_labels.tolist() == list(range(10))
    photo(root / "testing/11_00000.jpg", 1)
    with pytest.raises(LabelNoiseError, match=r"testing: '11_00000.jpg' does not begin with"):
        read("animal10n", tmp_path)
    shutil.rmtree(root / "testing")
    with pytest.raises(LabelNoiseError, match=r"animal10n lacks testing/: request"):
        read("animal10n", tmp_path)


@pytest.mark.parametrize("order", ["<u4", ">u4"])
def test_animals_in_binary_files(tmp_path: Path, order: str) -> None:
    root = tmp_path / "ANIMAL-10N"
    root.mkdir()
    chance = np.random.default_rng(0)
    pixels = chance.integers(0, 256, (14, 3, 64, 64), dtype=np.uint8)
    labels = np.arange(14) % 10
    heads = np.stack([np.arange(14) + 70_000, labels], 1).astype(order).view(np.uint8)
    records = np.concatenate([heads.reshape(14, 8), pixels.reshape(14, -1)], 1)
    parts = {"data_batch_1.bin": records[:6], "data_batch_2.bin": records[6:12]}
    for name, part in parts.items():
        part.tofile(root / name)
    with pytest.raises(LabelNoiseError, match=r"ANIMAL-10N lacks test_batch.bin: request"):
        read("animal10n", tmp_path)
    records[12:].tofile(root / "test_batch.bin")
    dataset = read("animal10n", tmp_path)
    assert dataset.labels.tolist() == labels[:12].tolist()
    assert np.array_equal(dataset.inputs.numpy(), pixels[:12])
    assert dataset.test_inputs is not None
    assert dataset.test_labels is not None
    assert dataset.test_labels.tolist() == [2, 3]
    assert np.array_equal(dataset.test_inputs.numpy(), pixels[12:])
    for place, value in ((4, 10), (5, 1)):  # no such label, or no number of that size
        wrong = records[12:].copy()
        wrong[0, place] = value
        wrong.tofile(root / "test_batch.bin")
        with pytest.raises(LabelNoiseError, match=r"test_batch.bin: labels 0 to 9 in four bytes"):
            read("animal10n", tmp_path)
    (root / "test_batch.bin").write_bytes(b"short")
    with pytest.raises(LabelNoiseError, match=r"records of 12296 bytes expected, found 5 bytes"):
        read("animal10n", tmp_path)
