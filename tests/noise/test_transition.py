"""Transition matrices against small ones written by hand, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labelnoise.errors import LabelNoiseError
from labelnoise.noise import transition
from labelnoise.noise.transition import NotDominantWarning

MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_FLIPS = {7: 1, 2: 7, 3: 8, 5: 6, 6: 5}

rates = st.floats(0, 1)
BY_RATE = [transition.symmetric, transition.symmetric_inclusive, transition.pair]


def close(actual: Tensor, expected: Sequence[Sequence[float]]) -> bool:
    assert actual.dtype == torch.float64
    return torch.allclose(actual, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-15)


def test_symmetric_leaves_out_the_true_class() -> None:
    expected = [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]]
    assert close(transition.symmetric(0.6, 3), expected)


def test_symmetric_inclusive_may_redraw_the_true_class() -> None:
    expected = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]
    assert close(transition.symmetric_inclusive(0.6, 3), expected)


def test_symmetric_inclusive_realises_less_than_its_rate() -> None:
    kept = transition.symmetric_inclusive(0.5, 10).diagonal()
    assert torch.allclose(1 - kept, torch.full((10,), 0.45, dtype=torch.float64))


def test_pair_goes_round() -> None:
    expected = [[0.75, 0.25, 0.0], [0.0, 0.75, 0.25], [0.25, 0.0, 0.75]]
    assert close(transition.pair(0.25, 3), expected)


def test_class_conditional_touches_only_the_classes_in_the_map() -> None:
    expected = [[1.0, 0, 0, 0], [0, 0.6, 0.4, 0], [0, 0.4, 0.6, 0], [0.4, 0, 0, 0.6]]
    assert close(transition.class_conditional(0.4, {1: 2, 2: 1, 3: 0}, 4), expected)


def test_class_conditional_realises_the_papers_rate_on_mnist() -> None:
    share = torch.tensor(MNIST_COUNTS, dtype=torch.float64) / 60_000
    wrong = 1 - transition.class_conditional(0.45, MNIST_FLIPS, 10).diagonal()
    assert float(share @ wrong) == pytest.approx(0.223, abs=5e-4)


@pytest.mark.parametrize(("name", "mean"), [("mnist-arbitrary", 0.23), ("cifar10-arbitrary", 0.16)])
def test_named_matrices_have_the_papers_mass_off_the_diagonal(name: str, mean: float) -> None:
    matrix = transition.named(name)
    transition.check(matrix, 10)  # also: dominant, so no warning
    assert float((1 - matrix.diagonal()).mean()) == pytest.approx(mean, abs=0.006)


def test_named_matrices_hold_the_papers_entries() -> None:
    mnist, cifar = transition.named("mnist-arbitrary"), transition.named("cifar10-arbitrary")
    assert mnist[6].tolist() == [0, 0, 0, 0, 0, 0.35, 0.55, 0.1, 0, 0]
    assert mnist[3].tolist() == [0, 0, 0, 0.5, 0, 0.1, 0, 0, 0.4, 0]
    assert cifar[3].tolist() == [0.1, 0, 0, 0.6, 0, 0.1, 0, 0, 0.2, 0]
    assert cifar[9].tolist() == [0, 0.1, 0, 0, 0, 0, 0, 0.1, 0, 0.8]


def test_named_matrix_that_does_not_exist() -> None:
    with pytest.raises(LabelNoiseError, match="unknown matrix 'mnist': did you mean 'mnist-arb"):
        transition.named("mnist")


@pytest.mark.parametrize("build", BY_RATE)
@given(rate=rates, num_classes=st.integers(2, 30))
@settings(deadline=None, max_examples=30)
def test_every_rate_gives_a_transition_matrix(
    build: Callable[[float, int], Tensor], rate: float, num_classes: int
) -> None:
    matrix = build(rate, num_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotDominantWarning)
        transition.check(matrix, num_classes)
    assert matrix.shape == (num_classes, num_classes)


@pytest.mark.parametrize("build", BY_RATE)
def test_no_noise_is_the_identity(build: Callable[[float, int], Tensor]) -> None:
    assert build(0, 5).equal(torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("build", BY_RATE)
@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), float("inf")])
def test_rate_out_of_range(build: Callable[[float, int], Tensor], rate: float) -> None:
    with pytest.raises(LabelNoiseError, match=r"a noise rate is a fraction in \[0, 1\], not"):
        build(rate, 3)


@pytest.mark.parametrize("build", BY_RATE)
@pytest.mark.parametrize("num_classes", [0, 1])
def test_too_few_classes(build: Callable[[float, int], Tensor], num_classes: int) -> None:
    with pytest.raises(LabelNoiseError, match="at least 2 classes"):
        build(0.3, num_classes)


@pytest.mark.parametrize("flips", [{3: 0}, {0: 3}, {-1: 0}, {0: -1}])
def test_flip_outside_of_the_classes(flips: dict[int, int]) -> None:
    with pytest.raises(LabelNoiseError, match="outside of the 3 classes"):
        transition.class_conditional(0.3, flips, 3)


def test_flip_to_itself() -> None:
    with pytest.raises(LabelNoiseError, match="flip 1 -> 1 goes to the same class"):
        transition.class_conditional(0.3, {1: 1}, 3)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 2, 2)])
def test_check_refuses_what_is_not_square(shape: tuple[int, ...]) -> None:
    with pytest.raises(LabelNoiseError, match="square"):
        transition.check(torch.ones(shape), 2)


def test_check_names_both_sizes() -> None:
    with pytest.raises(LabelNoiseError, match="for 3 classes, the data has 10"):
        transition.check(torch.eye(3), 10)


def test_check_names_the_negative_entry() -> None:
    with pytest.raises(LabelNoiseError, match=r"row 1 .* negative entry: -0.1 in column 0"):
        transition.check(torch.tensor([[1.0, 0.0], [-0.1, 1.1]]), 2)


@pytest.mark.parametrize(("entry", "total"), [(0.8, "0.8"), (1.00001, "1.00001"), (np.nan, "nan")])
def test_check_names_the_row_and_its_sum(entry: float, total: str) -> None:
    matrix = torch.tensor([[1, 0], [0, entry]], dtype=torch.float64)
    with pytest.raises(LabelNoiseError, match=f"row 1 .* must sum to 1, not {total}$"):
        transition.check(matrix, 2)


def test_check_forgives_rounding() -> None:
    transition.check(torch.tensor([[1.0, 0.0], [0.0, 1 + 5e-7]], dtype=torch.float64), 2)
    transition.check(transition.symmetric(0.3, 100).float(), 100)
    transition.check(torch.ones(1, 1), 1)


def test_warning_names_the_class_and_says_why() -> None:
    matrix = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    with pytest.warns(NotDominantWarning) as caught:
        transition.check(matrix, 3)
    assert issubclass(NotDominantWarning, UserWarning)
    assert str(caught[0].message) == (
        "class 1 keeps its label with probability 0.3 and is given as class 2 with 0.5: the right "
        "label is then not the most frequent one of its class, so no method that relies on the "
        "majority can recover it"
    )
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "matrix",
    [
        transition.pair(0.5, 4),
        transition.symmetric(0.9, 10),
        transition.symmetric(2 / 3, 3),  # 1/3 and 1/3, unequal in their last bit
        transition.symmetric_inclusive(1.0, 7),
    ],
)
def test_a_tie_is_not_dominant(matrix: Tensor) -> None:
    with pytest.warns(NotDominantWarning, match=rf"class 0 .* \({len(matrix) - 1} more like it\)"):
        transition.check(matrix, len(matrix))


@pytest.mark.parametrize("matrix", [transition.pair(0.49, 4), transition.symmetric(0.89, 10)])
def test_no_warning_just_below_the_tie(matrix: Tensor) -> None:
    transition.check(matrix, len(matrix))


EXPECTED = [[0.75, 0.25], [0.5, 0.5]]
WRITTEN = {
    "commas.csv": "0.75,0.25\n0.5,0.5\n",
    "spaced.csv": "\n 0.75 , 0.25\r\n0.5, 0.5",
    "mark.csv": "\ufeff0.75,0.25\n5e-1,0.5\n",
    "blanks.txt": "0.75 0.25\n\n0.5\t0.5\n",
    "upper.TXT": "0.75 0.25\n0.5 0.5",
    "lists.json": "[[0.75, 0.25], [0.5, 0.5]]",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_read_matrix_from_text(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(WRITTEN[name], encoding="utf-8")
    matrix = transition.read_matrix(tmp_path / name)
    assert matrix.dtype == torch.float64
    assert matrix.tolist() == EXPECTED


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f8"])
def test_read_matrix_from_numpy(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "m.npy", np.array(EXPECTED, dtype=dtype, order="F"))
    assert transition.read_matrix(str(tmp_path / "m.npy")).tolist() == EXPECTED


def test_read_matrix_of_whole_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.eye(2, dtype=np.int64))
    (tmp_path / "m.json").write_text("[[1, 0], [0, 1]]")
    assert transition.read_matrix(tmp_path / "m.npy").tolist() == [[1, 0], [0, 1]]
    assert transition.read_matrix(tmp_path / "m.json").tolist() == [[1, 0], [0, 1]]


def test_read_matrix_below_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The shell leaves the tilde in `matrix:~/m.csv` alone.
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.csv").write_text("1")
    assert transition.read_matrix("~/m.csv").tolist() == [[1]]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "0.5,half\n", "line 1 is not a row of numbers: '0.5,half'"),
        ("b.csv", "1,0\n0.5,,0.5\n", "line 2 is not a row of numbers"),
        ("c.txt", "1 0\n0 1 0\n", "row 1 has 3 numbers, row 0 has 2"),
        ("d.txt", "\n\n", "holds no numbers"),
        ("e.json", "{}", "expected a list of lists of numbers"),
        ("f.json", "[1, 2]", "expected a list of lists of numbers"),
        ("g.json", "[[1, 0], [0, true]]", "row 1 is not a list of numbers"),
        ("h.json", '[["1"]]', "row 0 is not a list of numbers"),
        ("i.json", "[[1, 0], [0]]", "row 1 has 1 numbers, row 0 has 2"),
        ("j.json", "[[1,", "Expecting value"),
        ("k.json", "[]", "holds no numbers"),
        ("l.json", "[" * 200_000, "recursion"),
        ("m.json", f"[[{'9' * 400}]]", "too large"),
        ("n.npy", "not numpy at all", "magic string"),
        ("o.npy", "", "EOF|No data left"),
        ("p.pt", "anything", r"a matrix is a .npy, .csv, .txt, .json file"),
        ("q", "1", r"a matrix is a .npy, .csv, .txt, .json file"),
    ],
)
def test_read_matrix_says_what_is_wrong_with_which_file(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    refuse(file, why)


def test_read_matrix_refuses_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b"\xff\xfe\x00")
    refuse(tmp_path / "m.csv", "utf-8")


def test_read_matrix_refuses_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    refuse(tmp_path / "missing.csv", "No such file")
    refuse(tmp_path / "folder.csv", "Is a directory")


@pytest.mark.parametrize(
    "array", [np.ones(3), np.ones((2, 2, 2)), np.eye(2) * 1j, np.array([["1"]])]
)
def test_read_matrix_refuses_arrays_that_are_no_matrix(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "m.npy", array)
    refuse(tmp_path / "m.npy", "expected a matrix of real numbers")


def test_read_matrix_never_unpickles(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([[None]], dtype=object))
    refuse(tmp_path / "m.npy", "allow_pickle=False")


def refuse(file: Path, why: str) -> None:
    with pytest.raises(LabelNoiseError, match=why) as caught:
        transition.read_matrix(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message
