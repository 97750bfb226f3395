from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labelnoise.data import DATASETS, FORMATS, data_directory, read
from labelnoise.errors import LabelNoiseError

NAMES = [
    *("digits", "mnist", "fashion-mnist", "cifar10", "cifar100"),
    *("cifar10n-aggregate", "cifar10n-random1", "cifar10n-random2", "cifar10n-random3"),
    *("cifar10n-worst", "cifar100n", "animal10n"),
    *("clothing1m", "clothing1m-balanced", "clothing1m-clean", "food101n", "webvision-mini"),
    *("breast-cancer", "hundred", "glyphs", "rare"),
]
UNDERSTOOD = (
    "give a .npz, .npy, .csv, .tsv or .parquet file, a folder of class folders, "
    f"or one of {', '.join(NAMES)}"
)


def message(data: str) -> str:
    with pytest.raises(LabelNoiseError) as error:
        read(data)
    return str(error.value)


def test_the_registered_names() -> None:
    assert list(DATASETS) == NAMES
    assert list(FORMATS) == [".npz", ".npy", ".csv", ".tsv", ".parquet"]
    for name, source in DATASETS.items():
        assert source.name == name
        assert source.explains
        assert "\n" not in source.explains


def test_a_name() -> None:
    assert read("digits").name == "digits"


@pytest.mark.parametrize("name", ["own.npz", "OWN.NPZ"])
def test_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        np.savez(file, x=np.eye(4), y=np.arange(4))
    assert read(str(path)).classes == ("0", "1", "2", "3")


def test_a_file_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "own.npz", x=np.eye(4), y=np.arange(4))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(read("~/own.npz").labels) == 4


def test_a_wrong_name_suggests_the_right_one() -> None:
    assert (
        message("fashion-mnst") == "unknown data set 'fashion-mnst': did you mean 'fashion-mnist'?"
    )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("absent.npz", "absent.xlsx", "absent"):
        path = str(tmp_path / name)
        assert message(path) == f"{path}: no such file; {UNDERSTOOD}"


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "table.xlsx").write_text("a,b")
    path = str(tmp_path / "table.xlsx")
    assert message(path) == f"{path}: this kind of file is not understood; {UNDERSTOOD}"


def test_a_folder_without_images(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    for path in (tmp_path / "folder.npz", tmp_path):
        assert message(str(path)).startswith(f"{path}: no images in sub-folders: put the images")


def test_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LABELNOISE_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_directory() == tmp_path / ".cache/labelnoise"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_directory() == tmp_path / ".cache/labelnoise"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_directory() == tmp_path / "cache/labelnoise"
    monkeypatch.setenv("LABELNOISE_DATA", "~/data")
    assert data_directory() == tmp_path / "data"
    assert data_directory(Path("/elsewhere")) == Path("/elsewhere")
