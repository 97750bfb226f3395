from __future__ import annotations

import gzip
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labelnoise.data.directory import VARIABLE
from labelnoise.data.idx import (
    FASHION_MNIST,
    FILES,
    MNIST,
    IdxSet,
    read_idx,
    read_images,
    read_labels,
)
from labelnoise.data.split import paper_split
from labelnoise.errors import LabelNoiseError

from .serving import md5, serve

TRAIN_ROWS, TEST_ROWS = 30, 12


def images_file(count: int, side: int = 28, magic: int = 2051) -> bytes:
    pixels = np.arange(count * side * side, dtype=np.uint32).astype(np.uint8)
    return struct.pack(">IIII", magic, count, side, side) + pixels.tobytes()


def labels_file(count: int, magic: int = 2049) -> bytes:
    return struct.pack(">II", magic, count) + bytes(row % 10 for row in range(count))


CONTENT = dict(
    zip(
        FILES,
        (
            images_file(TRAIN_ROWS),
            labels_file(TRAIN_ROWS),
            images_file(TEST_ROWS),
            labels_file(TEST_ROWS),
        ),
        strict=True,
    )
)
COMPRESSED = {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in CONTENT.items()}


def served(source: IdxSet, url: str) -> IdxSet:
    """The data set as it would be if `url` were its only mirror."""
    return replace(source, mirrors=(url,), checksums=tuple(map(md5, COMPRESSED.values())))


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("files", [CONTENT, COMPRESSED], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("source", "folder"),
    [(source, folder) for source in (MNIST, FASHION_MNIST) for folder in source.folders],
)
def test_reads_every_layout(
    tmp_path: Path, source: IdxSet, folder: str, files: dict[str, bytes]
) -> None:
    write(tmp_path / folder, files)
    data = read_idx(source, tmp_path)
    assert data.name == source.name
    assert data.inputs.shape == (TRAIN_ROWS, 1, 28, 28)
    assert data.inputs.dtype == torch.uint8
    assert data.labels.tolist() == [row % 10 for row in range(TRAIN_ROWS)]
    assert data.labels.dtype == torch.int64
    assert data.test_inputs is not None
    assert data.test_labels is not None
    assert data.test_inputs.shape == (TEST_ROWS, 1, 28, 28)
    assert len(data.test_labels) == TEST_ROWS
    assert data.verified
    assert data.split is paper_split
    # Row by row: pixel (row, height, width) is the byte at that place in the file.
    assert data.inputs[1, 0, 2, 3] == (784 + 2 * 28 + 3) % 256


def test_flips_and_class_names(tmp_path: Path) -> None:
    write(tmp_path / "mnist", CONTENT)
    write(tmp_path / "fashion-mnist", CONTENT)
    digits, clothes = read_idx(MNIST, tmp_path), read_idx(FASHION_MNIST, tmp_path)
    assert digits.flips == {7: 1, 2: 7, 3: 8, 5: 6, 6: 5}
    assert digits.classes[7] == "7"
    assert clothes.flips is None
    assert clothes.classes[9] == "Ankle boot"


def test_the_fuller_folder_wins(tmp_path: Path) -> None:
    write(tmp_path / "mnist", {FILES[0]: b"left over"})
    write(tmp_path / "MNIST/raw", CONTENT)
    assert len(read_idx(MNIST, tmp_path).labels) == TRAIN_ROWS


def test_only_missing_files_are_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    write(tmp_path / "mnist", {name: CONTENT[name] for name in FILES[:3]})
    with serve(COMPRESSED) as site:
        data = read_idx(served(MNIST, site.url), tmp_path)
    assert site.asked == [f"{FILES[3]}.gz whole"]
    assert len(data.labels) == TRAIN_ROWS


def test_all_files_are_downloaded_into_the_first_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve(COMPRESSED) as site:
        source = served(FASHION_MNIST, site.url)
        read_idx(source, tmp_path)
        read_idx(source, tmp_path)  # from the disk this time
    assert len(site.asked) == 4
    names = {path.name for path in (tmp_path / "fashion-mnist").glob("*ubyte*")}
    assert names == set(COMPRESSED)


def test_runs_in_parallel_download_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve(COMPRESSED) as site, ThreadPoolExecutor(4) as pool:
        source = served(MNIST, site.url)
        sets = list(pool.map(lambda _: read_idx(source, tmp_path), range(4)))
    assert len(site.asked) == 4
    assert all(torch.equal(data.inputs, sets[0].inputs) for data in sets)


def test_without_network_the_missing_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = write(tmp_path / "mnist", {name: CONTENT[name] for name in FILES[:2]})
    with pytest.raises(LabelNoiseError) as error:
        read_idx(served(MNIST, "http://127.0.0.1:9/"), tmp_path)
    assert str(error.value) == (
        "cannot download mnist (127.0.0.1: no network? Connection refused): "
        f"put {FILES[2]}.gz, {FILES[3]}.gz into {folder} or set LABELNOISE_DATA"
    )


def test_a_data_directory_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LabelNoiseError, match=r"cannot download into .*file/mnist"):
        read_idx(MNIST, tmp_path / "file")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too short for the header of an IDX file of images"),
        (images_file(2)[:15], "too short"),
        (images_file(2, magic=2049), "magic number 2051 expected for images, found 2049"),
        (images_file(0), "holds no images"),
        (images_file(2, side=27), "images of 28x28 expected, found 27x27"),
        (images_file(2)[:-7], "1568 bytes expected for 2 images of 28x28, found 1561"),
        (images_file(2) + b"!", "1568 bytes expected for 2 images of 28x28, found 1569"),
    ],
)
def test_wrong_images_are_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "images"
    path.write_bytes(data)
    with pytest.raises(LabelNoiseError) as error:
        read_images(path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (labels_file(3)[:7], "too short"),
        (labels_file(3, magic=2051), "magic number 2049 expected for labels, found 2051"),
        (labels_file(3)[:-1], "3 bytes expected for 3 labels, found 2"),
        (labels_file(3)[:-1] + b"\x0a", "labels 0 to 9 expected, found 10"),
    ],
)
def test_wrong_labels_are_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "labels"
    path.write_bytes(data)
    with pytest.raises(LabelNoiseError, match=message):
        read_labels(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (COMPRESSED["train-images-idx3-ubyte.gz"][:-20], "truncated"),
        (b"not gzip at all", "damaged gzip"),
        (b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 30, "damaged gzip"),
    ],
)
def test_damaged_gzip_names_the_file(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(data)
    with pytest.raises(LabelNoiseError, match=rf"images\.gz: {message}"):
        read_images(path)


def test_images_and_labels_must_agree(tmp_path: Path) -> None:
    write(tmp_path / "mnist", CONTENT | {FILES[1]: labels_file(TRAIN_ROWS - 1)})
    with pytest.raises(LabelNoiseError, match=r"29 labels but 30 images in train-images"):
        read_idx(MNIST, tmp_path)


def complaint(directory: Path) -> str:
    """What the reader says of the files: nothing when it can read them."""
    try:
        read_idx(MNIST, directory)
    except LabelNoiseError as error:
        return str(error)
    return ""


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from([*CONTENT, *COMPRESSED]),
    cut=st.integers(0, 200),
    where=st.integers(0, 100_000),
    byte=st.integers(0, 255),
)
def test_damage_gives_a_dataset_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, cut: int, where: int, byte: int
) -> None:
    files = CONTENT | COMPRESSED
    damaged = bytearray(files[name])
    damaged[where % len(damaged)] = byte
    # The plain file is preferred, so it is left out where the compressed one is damaged.
    others = {key: data for key, data in CONTENT.items() if key != name.removesuffix(".gz")}
    directory = tmp_path_factory.mktemp("damage")
    write(directory / "mnist", others | {name: bytes(damaged[: len(damaged) - cut])})
    error = complaint(directory)
    assert "\n" not in error
    assert not error or str(directory / "mnist") in error


@pytest.mark.data
def test_real_mnist() -> None:
    directory = Path(os.environ.get(VARIABLE) or "absent")
    if not any((directory / folder).is_dir() for folder in MNIST.folders):
        pytest.skip(f"{VARIABLE} names no directory with mnist/")
    data = read_idx(MNIST, directory)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(data.labels).tolist() == counts
    assert data.test_labels is not None
    assert len(data.test_labels) == 10_000
    assert data.inputs.float().mean().item() / 255 == pytest.approx(0.1307, abs=1e-4)
