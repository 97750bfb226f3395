from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from labelnoise.data.cifar10 import ARCHIVE, FILES, FOLDER, PICKLED, RECORD, read_cifar10
from labelnoise.data.directory import VARIABLE
from labelnoise.data.download import Download
from labelnoise.data.split import paper_split
from labelnoise.errors import LabelNoiseError

from .serving import md5, serve

ROWS = 4
NOWHERE = Download(ARCHIVE.name, ("http://127.0.0.1:9/a.tar.gz",), "0" * 32)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def batch_file(number: int, rows: int = ROWS) -> bytes:
    records = np.arange(rows * RECORD, dtype=np.uint32).reshape(rows, RECORD).astype(np.uint8)
    records[:, 0] = (np.arange(rows) + number) % 10
    return records.tobytes()


CONTENT = {name: batch_file(number) for number, name in enumerate(FILES)}


def write(directory: Path, files: dict[str, bytes]) -> Path:
    folder = directory / FOLDER
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_reads_the_binary_layout(tmp_path: Path) -> None:
    write(tmp_path, CONTENT)
    data = read_cifar10(tmp_path)
    assert data.inputs.shape == (5 * ROWS, 3, 32, 32)
    assert data.inputs.dtype == torch.uint8
    assert data.labels.tolist() == [row + number for number in range(5) for row in range(ROWS)]
    assert data.labels.dtype == torch.int64
    assert data.test_inputs is not None
    assert data.test_labels is not None
    assert data.test_inputs.shape == (ROWS, 3, 32, 32)
    assert data.test_labels.tolist() == [5, 6, 7, 8]
    assert data.classes[9] == "truck"
    assert data.flips == {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
    assert data.verified
    assert data.split is paper_split


def test_pixels_are_planes_row_by_row(tmp_path: Path) -> None:
    write(tmp_path, CONTENT)
    inputs = read_cifar10(tmp_path).inputs
    # Second record of the first file, green plane, row 2, column 3, after one byte of label.
    assert inputs[1, 1, 2, 3] == (RECORD + 1 + 1024 + 2 * 32 + 3) % 256


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "records of 3073 bytes expected, found 0 bytes"),
        (batch_file(0)[:-1], "records of 3073 bytes expected, found 12291 bytes"),
        (b"\x0a" + batch_file(0)[1:], "labels 0 to 9 expected, found 10"),
    ],
)
def test_wrong_files_are_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    folder = write(tmp_path, CONTENT | {"data_batch_3.bin": data})
    with pytest.raises(LabelNoiseError) as error:
        read_cifar10(tmp_path)
    assert str(error.value) == f"{folder / 'data_batch_3.bin'}: {message}"


def test_pickles_are_refused(tmp_path: Path) -> None:
    (tmp_path / PICKLED).mkdir()
    with pytest.raises(LabelNoiseError, match=r"can run code: unpack https.*cifar-10-binary"):
        read_cifar10(tmp_path)


def test_pickles_beside_the_binary_files_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / PICKLED).mkdir()
    write(tmp_path, CONTENT)
    assert len(read_cifar10(tmp_path).labels) == 5 * ROWS


def test_the_archive_is_downloaded_unpacked_and_removed(tmp_path: Path) -> None:
    body = archive(CONTENT)
    with serve({"a.tar.gz": body}) as site:
        source = Download(ARCHIVE.name, (site.url + "a.tar.gz",), md5(body))
        first = read_cifar10(tmp_path / "new", source)
        second = read_cifar10(tmp_path / "new", source)
    assert len(site.asked) == 1
    assert torch.equal(first.inputs, second.inputs)
    visible = {path.name for path in (tmp_path / "new").glob("[!.]*")}
    assert visible == {FOLDER}


def test_an_archive_that_lies_there_is_unpacked_and_kept(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE.name).write_bytes(archive(CONTENT))
    assert len(read_cifar10(tmp_path, NOWHERE).labels) == 5 * ROWS
    assert (tmp_path / ARCHIVE.name).exists()


def test_files_that_are_there_are_not_replaced(tmp_path: Path) -> None:
    own = {"data_batch_1.bin": batch_file(7)}
    folder = write(tmp_path, own)
    (tmp_path / ARCHIVE.name).write_bytes(archive(CONTENT))
    assert len(read_cifar10(tmp_path, NOWHERE).labels) == 5 * ROWS
    assert (folder / "data_batch_1.bin").read_bytes() == own["data_batch_1.bin"]


def test_a_file_cut_off_between_two_records_is_named(tmp_path: Path) -> None:
    write(tmp_path, {**CONTENT, "data_batch_3.bin": batch_file(3, rows=ROWS - 1)})
    with pytest.raises(LabelNoiseError, match=r"data_batch_3\.bin: \d+ records expected"):
        read_cifar10(tmp_path, NOWHERE)


def test_an_archive_without_the_files_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE.name).write_bytes(archive({"readme.html": b"hello"}))
    with pytest.raises(LabelNoiseError, match=r"holds no cifar-10-batches-bin/data_batch_1\.bin"):
        read_cifar10(tmp_path, NOWHERE)


def test_without_network_the_missing_files_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path, {name: CONTENT[name] for name in FILES[:5]})
    with pytest.raises(LabelNoiseError) as error:
        read_cifar10(tmp_path, NOWHERE)
    assert str(error.value) == (
        "cannot download cifar10 (127.0.0.1: no network? Connection refused): "
        f"put test_batch.bin into {folder} or cifar-10-binary.tar.gz into {tmp_path} "
        "or set LABELNOISE_DATA"
    )


@pytest.mark.data
def test_real_cifar10() -> None:
    directory = Path(os.environ.get(VARIABLE) or "absent")
    if not (directory / FOLDER).is_dir():
        pytest.skip(f"{VARIABLE} names no directory with {FOLDER}/")
    data = read_cifar10(directory)
    assert torch.bincount(data.labels).tolist() == [5000] * 10
    assert data.test_labels is not None
    assert torch.bincount(data.test_labels).tolist() == [1000] * 10
