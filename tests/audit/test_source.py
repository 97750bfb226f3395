"""What an audit is of can be read from any working folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labelnoise.audit.source import reread, source_of
from labelnoise.data import Columns, read
from labelnoise.errors import LabelNoiseError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with data of several kinds, and another beside it."""
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    inputs, labels = np.arange(60.0).reshape(30, 2), np.arange(30) % 3
    np.savez("a.npz", x=inputs, y=labels)
    np.save("e.npy", inputs)
    np.save("kinds.npy", labels)
    rows = "".join(f"{row % 7},{row % 3}\n" for row in range(30))
    Path("t.csv").write_text("x,kind\n" + rows)
    return folder


@pytest.mark.parametrize(
    ("data", "label", "stored"),
    [
        ("a.npz", None, "{here}/a.npz"),
        ("./a.npz:rows=20", None, "{here}/a.npz:rows=20"),
        ("../here/a.npz:classes=0/rest,rows=20", None, "{here}/a.npz:classes=0/rest,rows=20"),
        ("e.npy", "kinds.npy", "{here}/e.npy"),
        ("t.csv", "kind", "{here}/t.csv"),
        ("digits", None, "digits"),
        ("digits:rows=100", None, "digits:rows=100"),
    ],
)
def test_data_are_found_again_from_another_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch, data: str, label: str | None, stored: str
) -> None:
    columns = Columns(label=label)
    source = source_of(read(data, columns=columns), data, columns)
    assert source["data"] == stored.format(here=here)
    assert source["label"] == (str(here / "kinds.npy") if label == "kinds.npy" else label)
    monkeypatch.chdir(here.parent / "elsewhere")
    assert len(reread(source).labels) == len(
        read(source["data"], columns=Columns(source["label"])).labels
    )


def test_data_that_moved_say_so(here: Path) -> None:
    source = source_of(read("a.npz"), "a.npz", Columns())
    (here / "a.npz").unlink()
    with pytest.raises(LabelNoiseError, match="no such file"):
        reread(source)


def test_the_noise_that_was_planted_is_noted() -> None:
    dataset = read("digits")
    assert source_of(dataset, "digits", Columns())["noise"] == "none"
    assert source_of(dataset, "digits", Columns(), noise="pair:0.2")["noise"] == "pair:0.2"
