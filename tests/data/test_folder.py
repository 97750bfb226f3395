from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from PIL import Image

from labelnoise.data import Columns, Known, read
from labelnoise.data.folder import folder_rows, read_folder
from labelnoise.errors import LabelNoiseError

from .pictures import CLASSES, coloured, noise, save, truncated


def message(path: Path) -> str:
    with pytest.raises(LabelNoiseError) as error:
        read_folder(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_one_folder_a_class(tmp_path: Path) -> None:
    dataset = read(str(coloured(tmp_path, each=3)))
    assert dataset.name == str(tmp_path)
    assert dataset.classes == CLASSES
    assert dataset.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert dataset.labels.dtype == torch.int64
    assert dataset.inputs.shape == (9, 3, 16, 16)
    assert dataset.ids[:4] == ("blue/000.png", "blue/001.png", "blue/002.png", "green/000.png")
    assert dataset.test_inputs is None
    assert dataset.skipped == ()
    assert not dataset.verified
    assert isinstance(dataset.inputs, torch.Tensor)
    assert dataset.inputs.double().mean((2, 3)).argmax(1).tolist() == (2 - dataset.labels).tolist()


def test_images_deeper_down_belong_to_the_class(tmp_path: Path) -> None:
    for name in ("cat/b.png", "cat/2020/may/a.png", "cat/a.png", "dog/x/y/z.png"):
        save(tmp_path / name, noise(4, 4))
    dataset = read_folder(tmp_path)
    assert dataset.ids == ("cat/2020/may/a.png", "cat/a.png", "cat/b.png", "dog/x/y/z.png")
    assert dataset.labels.tolist() == [0, 0, 0, 1]


def test_names_in_any_script(tmp_path: Path) -> None:
    names = [
        "Ёлка/снег 1.png",
        "猫/写真.png",
        "<img src=x onerror=alert(1)>/a b'\"&.png",
        "a\nb/c.PNG",
    ]
    for name in names:
        save(tmp_path / name, noise(4, 4))
    dataset = read_folder(tmp_path)
    assert sorted(dataset.ids) == sorted(names)
    assert dataset.classes == ("<img src=x onerror=alert(1)>", "a\nb", "Ёлка", "猫")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes only text")
    shutil.copy(os.fsencode(save(tmp_path / "dog/a.png", noise(4, 4))), folder + b"/\xff.png")
    dataset = read_folder(tmp_path)
    assert dataset.classes == (r"caf\xe9", "dog")
    assert dataset.ids == (r"caf\xe9/\xff.png", "dog/a.png")
    assert dataset.fingerprint.hexdigest()
    assert len(dataset.inputs) == 2


def test_hidden_files_are_passed_over_in_silence(tmp_path: Path) -> None:
    coloured(tmp_path, each=2)
    for name in (".hidden.png", "red/.DS_Store", "red/._000.png", ".git/a/b.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "__MACOSX" / "red").mkdir(parents=True)
    assert len(read_folder(tmp_path).labels) == 6


def test_other_files_are_counted(tmp_path: Path) -> None:
    coloured(tmp_path, each=2)
    for name in ("README", "labels.csv", "red/a.txt", "red/deep/b.TXT", "red/c.heic"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    expected = r"5 files are no images \(1 without a suffix, 1 .csv, 1 .heic, 2 .txt\)"
    with pytest.warns(UserWarning, match=expected):
        assert len(read_folder(tmp_path).labels) == 6


def test_images_beside_the_class_folders_are_left_out(tmp_path: Path) -> None:
    save(coloured(tmp_path, each=2) / "loose.png", noise(4, 4))
    with pytest.warns(UserWarning, match=r"1 images lie in no class folder .* 'loose.png'"):
        assert "loose.png" not in read_folder(tmp_path).ids


def test_an_empty_class_folder_is_no_class(tmp_path: Path) -> None:
    (coloured(tmp_path, each=2) / "amber").mkdir()
    with pytest.warns(UserWarning, match="'amber' has no images"):
        assert read_folder(tmp_path).classes == CLASSES


def test_a_class_with_one_image(tmp_path: Path) -> None:
    save(coloured(tmp_path, each=2) / "amber/only.png", noise(16, 16))
    dataset = read_folder(tmp_path)
    assert torch.bincount(dataset.labels).tolist() == [1, 2, 2, 2]


def test_too_few_classes_or_none(tmp_path: Path) -> None:
    assert message(tmp_path).startswith(f"{tmp_path}: no images in sub-folders: put the images of")
    save(tmp_path / "cat/a.png", noise(4, 4))
    assert "only one class folder, 'cat', and two are needed" in message(tmp_path)
    with pytest.raises(LabelNoiseError, match="No such file"):
        read_folder(tmp_path / "absent")


def test_an_unreadable_image_is_skipped_counted_and_listed(tmp_path: Path) -> None:
    coloured(tmp_path, each=3)
    truncated(tmp_path / "red/001.png")
    (tmp_path / "blue/002.png").write_text("<html>404</html>")
    os.symlink(tmp_path / "nowhere", tmp_path / "red/lost.png")
    expected = r"3 of 10 images cannot be read and are left out: 'blue/002.png' \(no image\), 'red/"
    with pytest.warns(UserWarning, match=expected):
        dataset = read_folder(tmp_path)
    assert dataset.skipped == ("blue/002.png", "red/001.png", "red/lost.png")
    assert len(dataset.ids) == len(dataset.labels) == len(dataset.inputs) == 7
    assert not {*dataset.ids} & {*dataset.skipped}
    left = dict(zip(dataset.ids, dataset.inputs, strict=True))
    for skipped in dataset.skipped:
        (tmp_path / skipped).unlink()
    again = read_folder(tmp_path)  # as if they had never been there
    assert again.ids == dataset.ids
    assert all(left[name].equal(row) for name, row in zip(again.ids, again.inputs, strict=True))
    assert again.fingerprint.digest() == dataset.fingerprint.digest()


def test_a_class_of_which_nothing_can_be_read_is_no_class(tmp_path: Path) -> None:
    coloured(tmp_path, each=2)
    for path in (tmp_path / "green").iterdir():
        path.write_bytes(b"")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = read_folder(tmp_path)
    assert ["2 of 6 images cannot" in str(w.message) for w in caught] == [True, False]
    assert "'green' has no images" in str(caught[1].message)
    assert dataset.classes == ("blue", "red")
    assert dataset.labels.tolist() == [0, 0, 1, 1]


def test_nothing_can_be_read(tmp_path: Path) -> None:
    for path in coloured(tmp_path, each=2).rglob("*.png"):
        path.write_bytes(b"x")
    assert message(tmp_path).startswith(f"{tmp_path}: none of 6 images can be read: 'blue/000.png'")


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    elsewhere = coloured(tmp_path / "elsewhere", each=2)
    root = tmp_path / "data"
    save(root / "cat/a.png", noise(16, 16))
    os.symlink(elsewhere / "red/000.png", root / "cat/linked.png")
    os.symlink(elsewhere / "blue", root / "dog")
    os.symlink(root, root / "cat/back")
    os.symlink(".", root / "cat/self")
    os.symlink("itself", root / "cat/itself")
    with pytest.warns(UserWarning, match=r"1 files are no images \(1 without a suffix\)"):
        dataset = read_folder(root)
    assert dataset.ids == ("cat/a.png", "cat/linked.png", "dog/000.png", "dog/001.png")


def test_train_and_test(tmp_path: Path) -> None:
    coloured(tmp_path / "train", each=3)
    save(tmp_path / "test/red/deep/a.png", noise(16, 16))
    save(tmp_path / "test/blue/b.png", noise(16, 16))
    dataset = read_folder(tmp_path)
    assert dataset.classes == CLASSES
    assert dataset.ids[0] == "train/blue/000.png"
    assert len(dataset.labels) == len(dataset.inputs) == 9
    assert dataset.test_inputs is not None
    assert dataset.test_labels is not None
    assert dataset.test_inputs.shape == (2, 3, 16, 16)
    assert dataset.test_labels.tolist() == [0, 2]


def test_validation_is_the_test_part_where_there_is_no_other(tmp_path: Path) -> None:
    coloured(tmp_path / "train", each=3)
    coloured(tmp_path / "val", each=1)
    dataset = read_folder(tmp_path)
    assert dataset.test_labels is not None
    assert dataset.test_labels.tolist() == [0, 1, 2]
    coloured(tmp_path / "test", each=2)
    with pytest.warns(UserWarning, match="val is left aside"):
        dataset = read_folder(tmp_path)
    assert dataset.test_labels is not None
    assert dataset.test_labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_test_part_without_labels_is_left_aside(tmp_path: Path) -> None:
    coloured(tmp_path / "train", each=3)
    save(tmp_path / "test/1.png", noise(16, 16))
    with pytest.warns(UserWarning, match="test is left aside"):
        dataset = read_folder(tmp_path)
    assert dataset.test_inputs is None
    assert len(dataset.labels) == 9


def test_train_alone(tmp_path: Path) -> None:
    coloured(tmp_path / "train", each=3)
    (tmp_path / "train" / "empty").mkdir()
    with pytest.warns(UserWarning, match="'empty' has no images"):
        dataset = read_folder(tmp_path)
    assert dataset.classes == CLASSES
    assert dataset.test_inputs is None


def test_a_test_class_that_training_has_not(tmp_path: Path) -> None:
    coloured(tmp_path / "train", each=3)
    save(tmp_path / "test/pink/a.png", noise(16, 16))
    assert message(tmp_path) == (
        f"{tmp_path}: the test part has the class 'pink', which train has not"
    )


def test_trains_are_vehicles_too(tmp_path: Path) -> None:
    for name in ("train/a.png", "test/b.png"):
        save(tmp_path / name, noise(4, 4))
    assert read_folder(tmp_path).classes == ("test", "train")
    save(tmp_path / "car/c.png", noise(4, 4))
    save(tmp_path / "train/steam/d.png", noise(4, 4))
    assert read_folder(tmp_path).classes == ("car", "test", "train")


def test_the_order_does_not_depend_on_the_file_system(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    coloured(one, each=4)
    for path in sorted(one.rglob("*.png"), reverse=True):
        target = other / path.relative_to(one)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    first, second = read_folder(one), read_folder(other)
    assert first.ids == second.ids
    assert first.fingerprint.digest() == second.fingerprint.digest()


def test_a_changed_pixel_is_another_data_set(tmp_path: Path) -> None:
    before = read_folder(coloured(tmp_path, each=2)).fingerprint.digest()
    save(tmp_path / "red/000.png", noise(16, 16))
    assert read_folder(tmp_path).fingerprint.digest() != before


def test_fewer_rows_of_a_folder(tmp_path: Path) -> None:
    dataset = read(f"{coloured(tmp_path, each=4)}:rows=5")
    assert len(dataset.labels) == len(dataset.inputs) == len(dataset.ids) == 5
    whole = read_folder(tmp_path)
    for name, row in zip(dataset.ids, dataset.inputs, strict=True):
        assert row.equal(whole.inputs[whole.ids.index(name)])


# --- to predict -----------------------------------------------------------------------------------


def test_rows_with_labels(tmp_path: Path) -> None:
    coloured(tmp_path, each=2)
    inputs, labels, ids = folder_rows(
        tmp_path, Known(("red", "grey", "green", "blue"), shape=(3, 8, 8))
    )
    assert inputs.shape == (6, 3, 8, 8)
    assert labels is not None
    assert labels.tolist() == [3, 3, 2, 2, 0, 0]
    assert ids[0] == "blue/000.png"


def test_rows_without_labels(tmp_path: Path) -> None:
    for name in ("b.png", "a.jpg", "holiday/c.png", "red/d.png"):
        save(tmp_path / name, Image.new("RGB", (40, 20)))
    inputs, labels, ids = folder_rows(tmp_path, Known(CLASSES, shape=(1, 16, 16)))
    assert inputs.shape == (4, 1, 16, 16)
    assert labels is None
    assert ids == ("holiday/c.png", "red/d.png", "a.jpg", "b.png")


def test_rows_of_a_test_part(tmp_path: Path) -> None:
    coloured(tmp_path / "train", each=3)
    coloured(tmp_path / "test", each=1)
    _, labels, ids = folder_rows(tmp_path, Known(CLASSES, shape=(3, 16, 16)))
    assert labels is not None
    assert labels.tolist() == [0, 1, 2]
    assert ids == ("test/blue/000.png", "test/green/000.png", "test/red/000.png")


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="there are no images in it"):
        folder_rows(tmp_path, Known(CLASSES, shape=(3, 16, 16)))


def test_rows_for_a_model_of_other_data(tmp_path: Path) -> None:
    coloured(tmp_path, each=1)
    for known in (Known(CLASSES, shape=(30,)), Known(CLASSES, {"kind": "columns"}, (3, 8, 8))):
        with pytest.raises(LabelNoiseError, match="holds images, but the run was not trained on"):
            folder_rows(tmp_path, known)


def test_a_folder_has_no_columns(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="has no columns to name: leave --image out"):
        read(str(coloured(tmp_path, each=1)), columns=Columns(image="path"))
