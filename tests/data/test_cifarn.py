"""CIFAR-100 in both layouts, and the labels that people gave."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labelnoise.data import cifar10, cifarn, read
from labelnoise.data.pickled import read_pickled
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.parts import divide
from labelnoise.noise import parse

from .web import write

NAMES = [f"kind {number}" for number in range(100)]


def cifar100(rows: int, seed: int = 0) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    fine = np.arange(rows) % 100
    pixels = chance.integers(0, 256, (rows, 3072), dtype=np.uint8)
    return {"data": pixels, "fine_labels": fine.tolist(), "coarse_labels": (fine % 20).tolist()}


def write_binary(data: Path, parts: dict[str, dict[str, Any]]) -> None:
    root = data / "cifar-100-binary"
    write(root / "fine_label_names.txt", NAMES)
    for name, part in parts.items():
        labels = np.stack([part["coarse_labels"], part["fine_labels"]], 1).astype(np.uint8)
        np.concatenate([labels, part["data"]], 1).tofile(root / f"{name}.bin")


def write_pickled(data: Path, parts: dict[str, dict[str, Any]]) -> None:
    root = data / "cifar-100-python"
    root.mkdir()
    for name, part in {**parts, "meta": {"fine_label_names": NAMES}}.items():
        (root / name).write_bytes(pickle.dumps(part, protocol=2))


def test_both_layouts_of_cifar100(tmp_path: Path) -> None:
    parts = {"train": cifar100(200), "test": cifar100(100, seed=1)}
    found = []
    for name, make in (("a", write_binary), ("b", write_pickled)):
        (tmp_path / name).mkdir()
        make(tmp_path / name, parts)
        found.append(read("cifar100", tmp_path / name))
    assert found[0].fingerprint.digest() == found[1].fingerprint.digest()
    dataset = found[0]
    assert dataset.inputs.shape == (200, 3, 32, 32)
    assert dataset.inputs[3, 1].flatten().tolist() == parts["train"]["data"][3][1024:2048].tolist()
    assert dataset.labels[:3].tolist() == [0, 1, 2]
    assert dataset.classes[5] == "kind 5"
    assert dataset.flips is not None
    assert dataset.flips[3] == 23  # the next one of its group
    assert dataset.flips[83] == 3


def test_cifar100_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"no folder .*cifar-100-binary with train.bin, test"):
        read("cifar100", tmp_path)
    write_binary(tmp_path, {"train": cifar100(100)})
    with pytest.raises(LabelNoiseError, match=r"cifar-100-binary lacks test.bin: unpack"):
        read("cifar100", tmp_path)
    (tmp_path / "cifar-100-binary/test.bin").write_bytes(b"short")
    with pytest.raises(LabelNoiseError, match=r"test.bin: records of 3074 bytes expected, found 5"):
        read("cifar100", tmp_path)


def human(data: Path, old: bool = False, **changes: Any) -> dict[str, Any]:
    """CIFAR-10 of 50 rows, and what people said of them."""
    folder = data / cifar10.FOLDER
    folder.mkdir(parents=True)
    truth = np.arange(50) % 10
    for number, name in enumerate(cifar10.FILES):
        records = np.zeros((10, cifar10.RECORD), dtype=np.uint8)
        records[:, 0] = truth[(10 * number) % 50 :][:10]
        records.tofile(folder / name)
    names = ("aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
    labels = {"clean_label": truth, **{n: (truth + k) % 10 for k, n in enumerate(names)}, **changes}
    torch.save(labels, data / "CIFAR-10_human.pt", _use_new_zipfile_serialization=not old)
    return labels


@pytest.mark.filterwarnings("ignore:.*not the official file")
@pytest.mark.parametrize("old", [False, True])
def test_what_people_said_is_given_and_the_truth_is_known(tmp_path: Path, old: bool) -> None:
    labels = human(tmp_path, old)
    for name, key in (("cifar10n-worst", "worse_label"), ("cifar10n-random3", "random_label3")):
        dataset = read(name, tmp_path)
        assert dataset.name == name
        assert dataset.labels.tolist() == labels[key].tolist()
        assert dataset.truth is not None
        assert dataset.truth.tolist() == labels["clean_label"].tolist()
    parts = divide(dataset, parse("none"), 0)
    assert parts.train.truth is not None
    assert ((parts.train.truth + 4) % 10).equal(parts.train.given)
    with pytest.raises(LabelNoiseError, match="has wrong labels of its own: leave --noise out"):
        divide(dataset, parse("symmetric:0.3"), 0)


def test_another_file_than_the_official_one_is_told(tmp_path: Path) -> None:
    human(tmp_path)
    with pytest.warns(UserWarning, match="not the official file"):
        read("cifar10n-aggregate", tmp_path)


@pytest.mark.filterwarnings("ignore:.*not the official file")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"clean_label": np.zeros(50, dtype=int)}, "are not those of cifar10"),
        ({"worse_label": np.arange(49) % 10}, "50 whole numbers expected as 'worse_label'"),
        ({"worse_label": np.full(50, 10)}, "has labels beyond 0 to 9"),
        ({"worse_label": np.full(50, None)}, "50 whole numbers expected"),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    human(tmp_path, **changes)
    with pytest.raises(LabelNoiseError, match=problem):
        read("cifar10n-worst", tmp_path)


def test_people_s_labels_are_missing(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"lacks CIFAR-100_human.pt: take data/CIFAR-100_h"):
        read("cifar100n", tmp_path)


@pytest.mark.filterwarnings("ignore:.*not the official file")
def test_cifar100n(tmp_path: Path) -> None:
    write_binary(tmp_path, {"train": cifar100(100), "test": cifar100(100)})
    truth = np.arange(100)
    torch.save(
        {"clean_label": truth, "noisy_label": truth[::-1].copy()}, tmp_path / "CIFAR-100_human.pt"
    )
    assert read("cifar100n", tmp_path).labels.tolist() == truth[::-1].tolist()


class Harm:
    """Makes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


class Opened(Harm):
    def __reduce__(self) -> Any:
        return (eval, (f"open({str(self.target)!r}, 'w')",))


@pytest.mark.parametrize("kind", [Harm, Opened])
@pytest.mark.parametrize("how", ["pickle", "zip", "old"])
def test_nothing_in_a_pickle_runs(tmp_path: Path, kind: type[Harm], how: str) -> None:
    target, path = tmp_path / "harm", tmp_path / "file"
    content = {"clean_label": np.arange(3), "harm": kind(target)}
    if how == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=how == "zip")
    with pytest.raises(LabelNoiseError, match=r"file: it asks to run [\w.]+, which no array needs"):
        read_pickled(path)
    assert not target.exists()


class Liar:
    """Says to numpy, or to what stands for it, whatever it is made with."""

    def __init__(self, *said: Any) -> None:
        self.said = said

    def __reduce__(self) -> Any:
        return self.said


OBJECTS = (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)  # and "none of them objects"
MADE: Any = np.empty(0).__reduce__()[0]
SCALAR: Any = np.int64(0).__reduce__()[0]


@pytest.mark.parametrize(
    "lie",
    [
        # Eight bytes that numpy would follow as the address of an object.
        Liar(
            MADE,
            (np.ndarray, (0,), b"b"),
            (1, (1,), Liar(np.dtype, ("V8", False, True), OBJECTS), False, b"A" * 8),
        ),
        Liar(SCALAR, (np.dtype([("a", "O")]), np.array([0x4141414141414141]))),
        Liar(np.ndarray, ((1 << 50,), np.dtype("u1"))),  # a petabyte
        Liar(
            MADE,
            (np.ndarray, (0,), b"b"),
            (1, (1,), Liar(np.dtype, ("i8",), (3, "O,", None)), False, b"A" * 16),
        ),
        np.array([{"any": "object"}]),
    ],
    ids=["address", "scalar", "petabyte", "order", "objects"],
)
def test_a_pickle_that_lies_to_numpy_gives_nothing(tmp_path: Path, lie: Any) -> None:
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"lie": lie, "honest": np.arange(3)}, protocol=2))
    found = read_pickled(path)
    assert found["lie"] is None
    assert found["honest"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6, dtype=">i4"),
        np.array([True, False]),
        np.float32(0.5),
    ],
    ids=["rows", "columns", "big end", "bool", "scalar"],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_arrays_come_as_they_were_written(tmp_path: Path, values: Any, protocol: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"a": values}, protocol=protocol))
    found = read_pickled(path)["a"]
    assert np.array_equal(found, values)
    assert found.dtype == values.dtype
    found += found  # one's own, not a look at the file


def test_an_array_that_python_2_wrote(tmp_path: Path) -> None:
    """As CIFAR-100's: bytes are text there."""
    path = tmp_path / "train"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR"
        b"(I1\n(I2\nI2\ntcnumpy\ndtype\n(U\x02u1I0\nI1\ntR"
        b"(I3\nU\x01|NNNI-1\nI-1\nI0\ntbI00\nU\x04\x00\x80\xfe\xfftb"
    )
    path.write_bytes(b"\x80\x02}(U\x04data" + array + b"U\x0bfine_labels](I5\nI7\neu.")
    found = read_pickled(path)
    assert found["data"].tolist() == [[0, 128], [254, 255]]
    assert found["data"].dtype == np.uint8
    assert found["fine_labels"] == [5, 7]


def test_tensors_and_damage_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    torch.save({"a": torch.zeros(3)}, path)
    with pytest.raises(LabelNoiseError, match="not read"):
        read_pickled(path)
    whole = pickle.dumps({"a": np.arange(1000)})
    for broken in (b"", b"no pickle", whole[:-100], b"PK\x03\x04 no zip"):
        path.write_bytes(broken)
        with pytest.raises(LabelNoiseError, match="file: damaged, or no pickle of arrays"):
            read_pickled(path)
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(LabelNoiseError, match="a dictionary expected, found list"):
        read_pickled(path)
    assert cifarn.TRUTH == "clean_label"
