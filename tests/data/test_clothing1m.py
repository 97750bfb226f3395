from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import cast

import pytest
import torch

from labelnoise.audit.audit import audit_labels
from labelnoise.audit.export import export
from labelnoise.audit.source import reread
from labelnoise.audit.store import read_source
from labelnoise.cli import main
from labelnoise.data import read
from labelnoise.data.clothing1m import balanced, read_balanced
from labelnoise.data.stored import Files, readable, unread, walk
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.doctor import understood
from labelnoise.experiment.parts import divide
from labelnoise.experiment.run import train
from labelnoise.noise import parse

from .web import CLOTHES, add, clothing, nasty, photo, write


@pytest.mark.parametrize("annotations", [False, True])
def test_the_lists_are_the_parts(tmp_path: Path, annotations: bool) -> None:
    clothing(tmp_path, annotations=annotations)
    dataset = read("clothing1m", tmp_path)
    assert dataset.classes == CLOTHES
    assert dataset.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 1]
    assert dataset.inputs.shape == (12, 3, 256, 256)
    assert list(dataset.ids)[:2] == ["images/0/0000,77.jpg", "images/1/0001,77.jpg"]
    assert dataset.ids[-1] == "images/1/0011,77.jpg"
    pixels = torch.cat(list(walk(dataset.inputs, 5))).float()
    assert pixels.mean((2, 3)).argmax(1).equal(dataset.labels)  # each shows its label
    parts = divide(dataset, parse("none"), 0)
    assert len(parts.train.given) == 12
    assert parts.train.truth is None
    assert parts.validation.given.tolist() == [0, 1, 2]
    assert parts.test.labels.tolist() == [0, 1, 2]
    held = cast(Files, parts.validation.inputs)
    assert held.names[int(held.rows[0])].startswith("images/0/2")
    clean = read("clothing1m-clean", tmp_path)
    assert [name[9] for name in clean.ids] == ["1"] * 3


def test_noise_may_be_planted_in_both_parts(tmp_path: Path) -> None:
    clothing(tmp_path)
    parts = divide(read("clothing1m", tmp_path), parse("symmetric:0.6"), 0)
    assert parts.train.truth is not None
    assert not parts.train.given.equal(parts.train.truth)
    assert cast(torch.Tensor, parts.validation.truth).tolist() == [0, 1, 2]
    assert parts.test.labels.tolist() == [0, 1, 2]


def test_the_balanced_subset_is_the_same_every_time(tmp_path: Path) -> None:
    clothing(tmp_path)
    with pytest.warns(UserWarning, match="3 files of every class, not 18976: class 2 has no more"):
        first, again = (read("clothing1m-balanced", tmp_path) for _ in range(2))
    assert torch.bincount(first.labels).tolist() == [3, 3, 3]  # as the rarest has
    assert list(first.ids) == list(again.ids)
    assert first.fingerprint.digest() == again.fingerprint.digest()
    assert torch.bincount(read_balanced(tmp_path, each=2).labels).tolist() == [2, 2, 2]
    labels = torch.tensor([0] * 50 + [1] * 9)
    rows = balanced(labels, 2, each=5)
    assert torch.bincount(labels[rows]).tolist() == [5, 5]
    assert rows.tolist() == [14, 31, 40, 48, 49, 50, 51, 54, 55, 57]  # here and everywhere
    with pytest.raises(LabelNoiseError, match="class 2 has no files"):
        balanced(labels, 3, each=5)


def test_the_fingerprint_is_of_names_and_labels_not_of_pixels(tmp_path: Path) -> None:
    root = clothing(tmp_path)
    before = read("clothing1m", tmp_path).fingerprint.digest()
    photo(root / "images/0/0000,77.jpg", 2)
    assert read("clothing1m", tmp_path).fingerprint.digest() == before
    labels = root / "noisy_label_kv.txt"
    labels.write_bytes(labels.read_bytes().replace(b"0000,77.jpg 0", b"0000,77.jpg 1"))
    assert read("clothing1m", tmp_path).fingerprint.digest() != before


def test_odd_images_are_read_and_bad_ones_are_left_out(tmp_path: Path) -> None:
    bad = {"corrupt.jpg", "empty.jpg", "truncated.jpg"}
    root = clothing(tmp_path)
    odd = nasty(root)
    dataset = read("clothing1m", tmp_path)
    assert len(dataset.labels) == 12 + len(odd)
    with pytest.warns(UserWarning, match=r"images/0/corrupt.jpg cannot be read \(Truncated"):
        pixels = torch.cat(list(walk(dataset.inputs, 64)))
    assert {name.rpartition("/")[2] for name in unread(dataset.inputs)} == bad
    kept = cast(torch.Tensor, readable(dataset.inputs))
    assert pixels[kept].flatten(1).any(1).all()
    sixteen = list(dataset.ids).index("images/0/sixteen.png")
    assert (pixels[sixteen] == 156).all()  # 40,000 / 257


def test_files_that_are_not_there_are_left_out_and_named(tmp_path: Path) -> None:
    root = clothing(tmp_path)
    (root / "images/1/0001,77.jpg").unlink()
    with pytest.warns(UserWarning, match=r"1 of 12 listed files are not there .*0001,77.jpg"):
        dataset = read("clothing1m", tmp_path)
    assert len(dataset.labels) == len(dataset.inputs) == 11
    assert dataset.skipped == ("images/1/0001,77.jpg",)
    assert "images/1/0001,77.jpg" not in dataset.ids


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    shutil.rmtree(clothing(tmp_path) / "images/1")
    with pytest.raises(LabelNoiseError, match=r"lacks 1 folder with 6 of its 12 .*'images/1'"):
        read("clothing1m", tmp_path)


def test_a_folder_that_nearly_nothing_is_listed_in_ends_no_run(tmp_path: Path) -> None:
    root = clothing(tmp_path, noisy=[row % 3 for row in range(100)])
    add(root, "images/elsewhere/lost.jpg", 0)
    with pytest.warns(UserWarning, match=r"1 of 101 listed files are not there .*elsewhere/lost"):
        dataset = read("clothing1m", tmp_path)
    assert len(dataset.labels) == len(dataset.inputs) == 100
    assert dataset.skipped == ("images/elsewhere/lost.jpg",)
    add(root, "images/elsewhere/other.jpg", 0)
    with pytest.raises(LabelNoiseError, match=r"lacks 1 folder with 2 of its 102 listed files"):
        read("clothing1m", tmp_path)


@pytest.mark.parametrize(
    "path", ["../secret.jpg", "images/../../secret.jpg", "/etc/passwd", "images/0/.."]
)
def test_a_path_that_climbs_out_is_refused(tmp_path: Path, path: str) -> None:
    root = clothing(tmp_path)
    photo(tmp_path / "secret.jpg", 0)
    add(root, path, 0)
    expected = r"noisy_train_key_list.txt, line 13: .* leads out of the data set's folder"
    kv = root / "noisy_label_kv.txt"
    kept = kv.read_bytes()
    with pytest.raises(LabelNoiseError, match=r"noisy_label_kv.txt, line 13: .* leads out"):
        read("clothing1m", tmp_path)
    kv.write_bytes(b"".join(kept.splitlines(keepends=True)[:12]))
    with pytest.raises(LabelNoiseError, match=expected):
        read("clothing1m", tmp_path)


@pytest.mark.parametrize("name", ["images/0/上衣 ё.jpg".encode(), b"images/0/\xc9\xcf.jpg"])
def test_a_name_that_is_not_ascii(tmp_path: Path, name: bytes) -> None:
    root = clothing(tmp_path)
    photo(Path(os.fsdecode(os.path.join(os.fsencode(root), name))), 2)
    add(root, name, 2)
    dataset = read("clothing1m", tmp_path)
    assert dataset.labels[-1] == 2
    assert dataset.inputs[12].float().mean((1, 2)).argmax() == 2
    assert dataset.ids[12].encode().isascii() is (b"\xc9\xcf" in name)  # spelt out if no UTF-8


def test_a_key_that_is_listed_twice_counts_once(tmp_path: Path) -> None:
    root = clothing(tmp_path)
    photo(root / "images/0/twice.jpg", 1)
    add(root, "images/0/twice.jpg", 1, listed=3)
    with (root / "noisy_train_key_list.txt").open("a") as file:
        file.write("images/./0/twice.jpg\r\nimages//0/twice.jpg\n\n")
    with pytest.warns(UserWarning, match=r"4 of 17 lines name a file again, such as '.*twice.jpg'"):
        dataset = read("clothing1m", tmp_path)
    assert len(dataset.labels) == 13


def test_a_key_without_a_label_is_left_out(tmp_path: Path) -> None:
    root = clothing(tmp_path)
    with (root / "noisy_train_key_list.txt").open("a") as file:
        file.write("images/0/nolabel.jpg\n")
    with pytest.warns(UserWarning, match=r"1 files have no label and are left out: '.*nolabel.jpg"):
        assert len(read("clothing1m", tmp_path).labels) == 12


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("images/0/a.jpg 3", "a label from 0 to 2 expected, found 3"),
        ("images/0/a.jpg -1", "a label from 0 to 2 expected, found -1"),
        ("images/0/a.jpg shirt", "a path and a number expected, found 'images/0/a.jpg shirt'"),
        ("images/0/a.jpg", "a path and a number expected"),
        ("", "it is empty, a path is expected"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    root = clothing(tmp_path)
    kv = root / "noisy_label_kv.txt"
    kv.write_bytes(line.encode() + b"\n" + kv.read_bytes())
    with pytest.raises(LabelNoiseError, match=f"noisy_label_kv.txt, line 1: {re.escape(problem)}"):
        read("clothing1m", tmp_path)


def test_what_is_missing_is_listed(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"no folder .*clothing1M or .* request the data"):
        read("clothing1m", tmp_path)
    root = clothing(tmp_path)
    (root / "clean_val_key_list.txt").unlink()
    (root / "noisy_label_kv.txt").unlink()
    shutil.rmtree(root / "images")
    lacks = r"lacks noisy_label_kv.txt, clean_val_key_list.txt, images/: request the data from"
    for name in ("clothing1m", "clothing1m-balanced", "clothing1m-clean"):
        with pytest.raises(LabelNoiseError, match=lacks):
            read(name, tmp_path)
    with pytest.raises(LabelNoiseError, match=lacks):
        understood("clothing1m", tmp_path)


POOLED = """
from torch import nn
def net(shape, classes):
    return nn.Sequential(nn.AvgPool2d(64), nn.Flatten(), nn.Linear(48, classes))
"""


@pytest.mark.filterwarnings("ignore:.*(listed files are not there|cannot be read)")
@pytest.mark.parametrize("noise", ["none", "symmetric:0.2"])
def test_an_audit_leaves_bad_images_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    """Its rows stay those of the other files, in what it finds and what it exports."""
    root = clothing(tmp_path, noisy=[row % 3 for row in range(30)])
    write(root / "images/0/0004,77.jpg", [b"broken"])
    (root / "images/1/0011,77.jpg").unlink()
    (tmp_path / "pooled.py").write_text(POOLED)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "audit"
    for _ in range(2):  # the second time it is there already
        audit = audit_labels(
            "clothing1m", out=out, noise=noise, net="pooled:net", epochs=4, data_dir=tmp_path
        )
        names = [f"images/{row % 2}/0{row:03d},77.jpg" for row in range(30) if row not in (4, 11)]
        assert list(audit.findings.ids) == names
        assert audit.skipped == ("images/1/0011,77.jpg", "images/0/0004,77.jpg")
        assert (out / "skipped.txt").read_text().split() == list(audit.skipped)
        assert bool(audit.against_truth) is (noise != "none")
    assert export(out, "fiftyone", tmp_path / "issues.json", data_dir=tmp_path) == 28
    samples = json.loads((tmp_path / "issues.json").read_text())["samples"]
    assert [sample["source_id"] for sample in samples] == names
    if noise == "none":
        labels = [CLOTHES[row % 3] for row in range(30) if row not in (4, 11)]
        assert [sample["ground_truth"]["label"] for sample in samples] == labels
    decided = reread(read_source(out), tmp_path)
    assert list(decided.ids) == names


def test_a_run_skips_counts_and_lists_bad_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the lists to the run's folder; in training and in the test part."""
    root = clothing(tmp_path, noisy=[row % 3 for row in range(30)])
    write(root / "images/0/0004,77.jpg", [b"broken"])
    write(root / "images/0/3002,77.jpg", [b"broken"])  # of the test list
    (tmp_path / "pooled.py").write_text(POOLED)
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=r"0004,77.jpg cannot be read \(no image\)"):
        run = train(
            "clothing1m",
            net="pooled:net",
            epochs=6,
            batch_size=8,
            data_dir=tmp_path,
            out=tmp_path / "runs",
        )
    assert (run.path / "skipped.csv").read_text().startswith("file,why\n")
    assert run.skipped == dict.fromkeys(
        ("images/0/0004,77.jpg", "images/0/3002,77.jpg"), "no image"
    )
    assert [row["skipped"] for row in run.rows] == [2] * 6
    seen = run.samples["seen"]
    assert seen[4] == 0
    assert (seen[[row for row in range(30) if row != 4]] == 6).all()
    assert run.rows[-1]["test_accuracy"] in {0, 0.5, 1}  # of two, not of three
    assert run.header["rows"] == {"train": 30, "validation": 3, "test": 3}
    predictions, words = tmp_path / "predictions.csv", ["--data-dir", str(tmp_path), "--json"]
    assert main(["predict", str(run.path), "clothing1m", *words, "--out", str(predictions)]) == 0
    lines = predictions.read_text().splitlines()[1:]
    assert [line.partition(",")[0] for line in lines] == ["0", "1"]  # not the one that is broken
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["accuracy"]) == (2, run.rows[-1]["test_accuracy"])
