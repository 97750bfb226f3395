from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from labelnoise.data.collect import SIDE, collect, survey, tell
from labelnoise.data.stored import Files, Names, walk

from .pictures import noise, save, truncated


def form_of(root: Path) -> tuple[int, int, int]:
    return survey(str(root), Names(sorted(path.name for path in root.iterdir())))


@pytest.mark.parametrize(("height", "width"), [(28, 28), (8, 20), (SIDE, SIDE), (1, 1)])
def test_one_small_size_stays(tmp_path: Path, height: int, width: int) -> None:
    for number in range(3):
        save(tmp_path / f"{number}.png", noise(height, width))
    assert form_of(tmp_path) == (3, height, width)


@pytest.mark.parametrize("sizes", [[(28, 28), (28, 27)], [(33, 33)], [(16, 40)], [(300, 200)]])
def test_other_sizes_become_one_square(tmp_path: Path, sizes: list[tuple[int, int]]) -> None:
    for number, (height, width) in enumerate(sizes):
        save(tmp_path / f"{number}.png", noise(height, width))
    assert form_of(tmp_path) == (3, SIDE, SIDE)


def test_grey_if_every_file_is(tmp_path: Path) -> None:
    for number, mode in enumerate(("L", "1", "LA", "I;16")):
        save(tmp_path / f"{number}.png", Image.new(mode, (9, 9)))
    assert form_of(tmp_path) == (1, 9, 9)
    save(tmp_path / "colour.png", noise(9, 9))
    assert form_of(tmp_path) == (3, 9, 9)


def test_a_damaged_header_has_no_say(tmp_path: Path) -> None:
    save(tmp_path / "a.png", noise(9, 9, channels=1))
    (tmp_path / "b.png").write_bytes(b"x")
    assert form_of(tmp_path) == (1, 9, 9)


def test_many_files_by_worker_processes(tmp_path: Path) -> None:
    """More than one chunk, more than are decoded in this process."""
    names = []
    for number in range(600):
        names.append(f"{number:03d}.png")
        save(tmp_path / names[-1], noise(4, 4, seed=number))
    truncated(tmp_path / "300.png")
    found = collect(str(tmp_path), names)
    with pytest.warns(UserWarning, match=r"^here: 1 of 600 images cannot be read .* '300.png'"):
        tell(Path("here"), found)
    assert found.inputs.shape == (599, 3, 4, 4)
    assert found.rows.tolist() == [row for row in range(600) if row != 300]
    assert list(found.faults) == ["300.png"]
    inputs = found.inputs
    assert isinstance(inputs, torch.Tensor)
    for row in (0, 299, 300, 598):
        expected = torch.frombuffer(
            bytearray(noise(4, 4, seed=int(found.rows[row])).tobytes()), dtype=torch.uint8
        )
        assert inputs[row].permute(1, 2, 0).reshape(-1).equal(expected)


def test_what_does_not_fit_stays_in_files(tmp_path: Path) -> None:
    names = [save(tmp_path / f"{n}.png", noise(4, 4, seed=n)).name for n in range(10)]
    truncated(tmp_path / "3.png")
    size = 10 * 3 * 4 * 4
    inside = collect(str(tmp_path), names, memory=size)
    outside = collect(str(tmp_path), names, memory=size - 1)
    assert isinstance(inside.inputs, torch.Tensor)
    assert isinstance(outside.inputs, Files)
    assert outside.rows.equal(inside.rows)
    assert outside.inputs.shape == inside.inputs.shape
    assert torch.cat(list(walk(outside.inputs, 4))).equal(inside.inputs)


def test_memory_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = save(tmp_path / "a.png", noise(4, 4)).name
    monkeypatch.setenv("LABELNOISE_MEMORY", "0")
    assert isinstance(collect(str(tmp_path), [name]).inputs, Files)
    monkeypatch.delenv("LABELNOISE_MEMORY")
    assert isinstance(collect(str(tmp_path), [name]).inputs, torch.Tensor)
