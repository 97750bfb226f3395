"""What there is to know before a training."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labelnoise.cli import main
from labelnoise.data import Columns
from labelnoise.experiment.doctor import lines_of_data, lines_of_machine, machine, understood
from labelnoise.experiment.run import train

PETS = "weight,colour,one,kind\n4,black,1,cat\n,brown,1,dog\n3,white,1,cat\n2,white,1,\n"


def test_the_machine(tmp_path: Path) -> None:
    found = machine(tmp_path / "not" / "yet" / "there")
    assert found["versions"]["torch"] == torch.__version__
    assert found["versions"]["numpy"] == np.__version__
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "nonsense" not in found["versions"]
    assert found["devices"][-1] == "cpu"
    assert found["cores"] >= 1
    assert found["threads"] == torch.get_num_threads()
    assert found["free_disk_gigabytes"] > 0
    assert len(list(lines_of_machine(found))) == 4 + len(found["problems"])


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """A torchvision in `folder` that does what `source` says when it is imported."""
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text(source)
    (folder / "torchvision-0.1.dist-info").mkdir()
    (folder / "torchvision-0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.1\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)


def test_a_broken_torchvision_is_named_with_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "raise RuntimeError('operator torchvision::nms\\ndoes not exist')"
    installed(tmp_path, monkeypatch, source)
    found = machine(tmp_path)
    assert found["versions"]["torchvision"] == "0.1"
    (problem,) = found["problems"]
    assert "(operator torchvision::nms does not exist)" in problem
    assert "pip uninstall torchvision" in problem
    assert f"problem:  {problem}" in list(lines_of_machine(found))


def test_a_torchvision_that_works_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "")
    assert machine(tmp_path)["problems"] == []
    monkeypatch.delitem(sys.modules, "torchvision")


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "pets.csv"
    path.write_text(PETS)
    with pytest.warns(UserWarning, match="left out"):
        found = understood(str(path), columns=Columns(label="kind"))
    assert found == {
        "data": str(path),
        "rows": 3,
        "test_rows": 0,
        "classes": 2,
        "rows_per_class": {"dog": 1, "cat": 2},
        "input_shape": [6],
        "input_type": "float32",
        "net": "mlp",
        "label_column": "kind",
        "rows_without_label": 1,
        "input_columns": {"weight": "number", "colour": "category"},
        "dropped_columns": {"one": "constant"},
        "missing_values": {"weight": 1},
    }
    assert list(found["rows_per_class"]) == ["dog", "cat"]
    assert list(lines_of_data(found)) == [
        f"data:     {path}, 3 rows",
        "classes:  2, rarest first: dog 1, cat 2",
        "inputs:   6, float32; net mlp",
        "label:    column 'kind', missing in 1 rows",
        "columns:  'weight' (number), 'colour' (category)",
        "left out: 'one' (constant)",
        "missing:  'weight' (1)",
    ]


def test_a_text(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("text,label\ngood day,1\nbad day,0\n")
    found = understood(str(path), columns=Columns(label="label", text="text"))
    assert found["input_columns"] == {"text": "text"}
    assert found["input_shape"] == [1, 3]


def test_images_with_a_test_part_and_many_classes(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    images = np.zeros((40, 32, 32, 3), dtype=np.uint8)
    np.savez(path, x=images, y=np.arange(40) % 12, x_test=images[:5], y_test=np.arange(5))
    lines = list(lines_of_data(understood(str(path))))
    assert lines[0] == f"data:     {path}, 40 rows, and 5 test rows"
    assert lines[1].startswith("classes:  12, rarest first: 4 3, 5 3, ")
    assert lines[1].endswith(" and 2 more")
    assert lines[2] == "inputs:   3 x 32 x 32, uint8; net cnn"
    assert len(lines) == 3


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.startswith("versions: python ")
    (tmp_path / "pets.csv").write_text(PETS)
    assert main(["doctor", "pets.csv", "--label", "kind", "--json"]) == 0
    asked = capsys.readouterr()
    found = json.loads(asked.out)
    assert found["data"]["rows"] == 3
    assert found["machine"]["versions"]["labelnoise"]
    assert "labelnoise: warning: pets.csv: 1 rows without a label" in asked.err
    assert main(["doctor", "pets.csv", "--label", "knid"]) == 2
    wrong = capsys.readouterr()
    assert wrong.out.startswith("versions: ")
    assert wrong.err.endswith("unknown column 'knid': did you mean 'kind'?\n")


def test_unreadable_images_are_listed(tmp_path: Path) -> None:
    for name, grey in (("dark", 40), ("light", 200)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(4):
            picture = Image.fromarray(np.full((8, 8), grey + number, dtype=np.uint8))
            picture.save(tmp_path / "own" / name / f"{number}.png")
    (tmp_path / "own" / "dark" / "torn.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="torn"):
        found = understood(str(tmp_path / "own"))
    assert found["skipped"] == ["dark/torn.png"]
    assert "unread:   1 files: dark/torn.png" in list(lines_of_data(found))
    with pytest.warns(UserWarning, match="torn"):
        run = train(str(tmp_path / "own"), net="mlp", epochs=1, out=tmp_path / "runs")
    assert run.header["skipped"] == ["dark/torn.png"]
