"""What a method is told besides the given labels, and what it says when nothing is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labelnoise.data import read
from labelnoise.data.dataset import Dataset
from labelnoise.data.scale import unit
from labelnoise.data.train import Train
from labelnoise.engine import fit
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment import run as experiment
from labelnoise.experiment.parts import Noisy, divide
from labelnoise.experiment.run import train
from labelnoise.experiment.supply import (
    content_of,
    needs_rate,
    needs_trusted,
    rate_source,
    trusted_set,
    trusted_source,
)
from labelnoise.method import Method
from labelnoise.methods import METHODS
from labelnoise.noise import NAMED, parse
from labelnoise.problem import Problem

WITH_RATE = ("coteaching", "coteaching-plus", "curriculum-loss")
WITH_TRUSTED = ("meta-ren", "meta-net")
NONE, HALF = parse("none"), parse("symmetric:0.5")


def test_methods_declare_what_they_need() -> None:
    assert tuple(name for name in METHODS if needs_rate(name)) == WITH_RATE
    assert tuple(name for name in METHODS if needs_trusted(name)) == WITH_TRUSTED
    with pytest.raises(LabelNoiseError, match="did you mean 'coteaching'"):
        needs_rate("coteachin")


# --- where a rate comes from ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cce", "bare", *WITH_TRUSTED])
def test_a_method_without_a_rate_gets_none_and_refuses_one(method: str) -> None:
    for known in (False, True):
        assert rate_source(None, method, HALF, known=known, told=False) is None
        for asked in (0.3, "true", "auto", "nominal"):
            with pytest.raises(LabelNoiseError, match=f"'{method}' takes no noise rate: leave"):
                rate_source(asked, method, HALF, known=known, told=False)


@pytest.mark.parametrize("method", WITH_RATE)
def test_without_being_asked_it_is_the_true_rate_where_that_is_known(method: str) -> None:
    assert rate_source(None, method, HALF, known=True, told=False) == "true"
    message = f"'{method}' needs the noise rate: pass --noise-rate R, or --noise-rate auto"
    with pytest.raises(LabelNoiseError, match=message):
        rate_source(None, method, NONE, known=False, told=False)


@pytest.mark.parametrize("known", [False, True])
def test_a_method_that_was_told_its_rate_is_not_told_again(known: bool) -> None:
    assert rate_source(None, "coteaching", NONE, known=known, told=True) is None


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("asked", [0.0, 0.25, 0.999, 0, "auto"])
def test_a_number_and_auto_need_no_truth(asked: float | str, known: bool) -> None:
    assert rate_source(asked, "coteaching", NONE, known=known, told=False) == asked


def test_the_true_rate_must_be_known() -> None:
    assert rate_source("true", "coteaching", HALF, known=True, told=False) == "true"
    with pytest.raises(LabelNoiseError, match="is not known: pass --noise-rate R or auto"):
        rate_source("true", "coteaching", NONE, known=False, told=False)


@pytest.mark.parametrize(("noise", "rate"), [("symmetric:0.5", 0.5), ("pair:0.45", 0.45)])
def test_the_nominal_rate_is_that_of_the_noise(noise: str, rate: float) -> None:
    assert rate_source("nominal", "coteaching", parse(noise), known=True, told=False) == rate


@pytest.mark.parametrize("noise", ["none", *(f"matrix:{name}" for name in NAMED)])
def test_a_noise_without_a_single_rate_has_no_nominal_one(noise: str) -> None:
    with pytest.raises(LabelNoiseError, match=f"noise '{noise}' has no nominal rate: pass --noise"):
        rate_source("nominal", "coteaching", parse(noise), known=True, told=False)


@pytest.mark.parametrize("asked", ["0.3", "treu", "", "AUTO"])
def test_other_words_are_an_error_that_lists_the_right_ones(asked: str) -> None:
    with pytest.raises(LabelNoiseError, match=r"a number or true, nominal, auto, got '"):
        rate_source(asked, "coteaching", HALF, known=True, told=False)


@pytest.mark.parametrize("asked", [1.0, -0.01, 7.0, float("nan"), float("inf")])
def test_a_number_that_is_no_rate_is_an_error(asked: float) -> None:
    with pytest.raises(LabelNoiseError, match=r"lies in \[0, 1\), got"):
        rate_source(asked, "coteaching", HALF, known=True, told=False)


# --- where a trusted set comes from ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["cce", "bare", *WITH_RATE])
def test_a_method_without_a_trusted_set_gets_none_and_refuses_one(method: str) -> None:
    for known in (False, True):
        assert trusted_source(None, method, known=known) is None
        for asked in (100, "100", "some.npz"):
            with pytest.raises(LabelNoiseError, match=f"'{method}' takes no trusted set: leave"):
                trusted_source(asked, method, known=known)


@pytest.mark.parametrize("method", WITH_TRUSTED)
def test_without_being_asked_it_is_the_validation_part_where_the_truth_is_known(
    method: str,
) -> None:
    assert trusted_source(None, method, known=True) == "validation"
    message = f"'{method}' needs a trusted set: pass --trusted FILE .* or --trusted N if you vouch"
    with pytest.raises(LabelNoiseError, match=message):
        trusted_source(None, method, known=False)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("asked", "source"),
    [
        (1, "validation:1"),
        (1000, "validation:1000"),
        ("1000", "validation:1000"),
        ("+7", "validation:7"),
        ("007", "validation:7"),
        ("good.npz", "file:good.npz"),
        ("2024/good.npz", "file:2024/good.npz"),
        ("12.npz", "file:12.npz"),
        ("-good.npz", "file:-good.npz"),
    ],
)
def test_a_number_means_rows_and_all_else_a_file(
    asked: int | str, source: str, known: bool
) -> None:
    assert trusted_source(asked, "meta-ren", known=known) == source


@pytest.mark.parametrize("asked", [0, -1, "0", "-3", "-0"])
def test_a_trusted_set_has_at_least_one_sample(asked: int | str) -> None:
    with pytest.raises(LabelNoiseError, match=f"at least one sample, got --trusted {asked}$"):
        trusted_source(asked, "meta-ren", known=True)


# --- the trusted set itself -----------------------------------------------------------------------


CLASSES = ("cat", "dog", "eel")


def own(rows: int = 30, dtype: torch.dtype = torch.float32) -> Dataset:
    chance = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (rows, 1, 4, 5), generator=chance).to(dtype)
    return Dataset("own", inputs, torch.arange(rows) % 3, CLASSES)


def part(*, truth: bool, rows: int = 12) -> Noisy:
    """A validation part; every given label is wrong."""
    dataset = own()
    right = dataset.labels[:rows]
    return Noisy(
        rows=torch.arange(rows),
        inputs=dataset.inputs[:rows],
        given=(right + 1) % 3,
        truth=right if truth else None,
    )


def position(inputs: Tensor) -> list[int]:
    """Where rows stand in the validation part."""
    return [int((part(truth=True).inputs == one).flatten(1).all(dim=1).nonzero()) for one in inputs]


def save(path: Path, rows: int = 6, **changes: Any) -> str:
    images = np.arange(rows * 20, dtype=np.float32).reshape(rows, 1, 4, 5)
    arrays = {"x": images, "y": np.array(["dog", "cat", "eel"] * rows)[:rows], **changes}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return str(path)


def test_without_a_source_nothing_is_trusted() -> None:
    supply = trusted_set(None, own(), part(truth=True), data_seed=0)
    assert (supply.inputs, supply.labels, supply.rows) == (None, None, 0)
    assert supply.validation.equal(part(truth=True).given)


def test_planted_noise_gives_the_true_labels_of_the_whole_validation_part() -> None:
    validation = part(truth=True)
    supply = trusted_set("validation", own(), validation, data_seed=0)
    assert supply.rows == 12
    assert supply.inputs is not None
    assert supply.labels is not None
    assert validation.truth is not None
    assert supply.inputs.equal(validation.inputs)
    assert supply.labels.equal(validation.truth)
    assert supply.validation.equal(validation.truth)  # what is trusted is not left wrong
    assert validation.given.equal(part(truth=True).given)  # and the part itself does not change


@pytest.mark.parametrize("size", [1, 5, 11, 12])
def test_a_number_of_rows_is_put_right_and_the_others_stay(size: int) -> None:
    validation = part(truth=True)
    supply = trusted_set(f"validation:{size}", own(), validation, data_seed=0)
    assert supply.inputs is not None
    assert supply.labels is not None
    assert validation.truth is not None
    rows = position(supply.inputs)
    assert len(set(rows)) == supply.rows == size
    assert rows == sorted(rows)
    assert supply.labels.equal(validation.truth[rows])
    for row in range(12):
        right = validation.truth if row in rows else validation.given
        assert int(supply.validation[row]) == int(right[row])


def test_which_rows_are_trusted_comes_from_the_data_seed_and_more_add_to_fewer() -> None:
    def rows(size: int, data_seed: int) -> list[int]:
        supply = trusted_set(f"validation:{size}", own(), part(truth=True), data_seed)
        assert supply.inputs is not None
        return position(supply.inputs)

    assert rows(5, 0) == rows(5, 0)
    assert len({tuple(rows(5, seed)) for seed in range(8)}) > 4
    assert set(rows(3, 0)) < set(rows(5, 0)) < set(rows(9, 0))


def test_own_labels_are_vouched_for_as_they_are() -> None:
    validation = part(truth=False)
    supply = trusted_set("validation:4", own(), validation, data_seed=0)
    assert supply.inputs is not None
    assert supply.labels is not None
    assert supply.labels.equal(validation.given[position(supply.inputs)])
    assert supply.validation.equal(validation.given)


def test_more_rows_than_there_are_is_an_error_that_says_how_many_there_are() -> None:
    with pytest.raises(LabelNoiseError, match="has 12 rows: pass --trusted 12 or less, or --tru"):
        trusted_set("validation:13", own(), part(truth=True), data_seed=0)


def test_a_file_gives_its_samples_and_leaves_the_validation_part_alone(tmp_path: Path) -> None:
    supply = trusted_set(
        f"file:{save(tmp_path / 'good.npz')}", own(), part(truth=True), data_seed=0
    )
    assert supply.rows == 6
    assert supply.inputs is not None
    assert supply.labels is not None
    assert supply.inputs.shape == (6, 1, 4, 5)
    assert supply.inputs.flatten().tolist() == list(range(120))
    assert supply.labels.tolist() == [1, 0, 2, 1, 0, 2]
    assert supply.validation.equal(part(truth=True).given)


def test_a_file_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    save(tmp_path / "good.npz")
    assert trusted_set("file:~/good.npz", own(), part(truth=True), data_seed=0).rows == 6
    assert content_of("file:~/good.npz") == (tmp_path / "good.npz").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "has no labels: a trusted set needs them"),
        ({"x": np.zeros((6, 4, 6), np.float32)}, r"shape \(1, 4, 6\), own .*\(1, 4, 5\)"),
        ({"x": np.zeros((6, 20), np.float32)}, r"shape \(20,\), own .* looks like the data"),
        ({"x": np.zeros((6, 4, 5), np.uint8)}, "torch.uint8 of shape .* own torch.float32"),
        ({"y": np.array(["dog", "cat", "emu"] * 2)}, "label 'emu', which is none of the classes"),
        ({"y": np.array(["dog"])}, "x has 6 rows but y has 1"),
        ({"x": None}, "no array 'x'"),
    ],
)
def test_a_file_that_does_not_fit_the_data_is_an_error_that_names_it(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    source = save(tmp_path / "bad.npz", **changes)
    with pytest.raises(LabelNoiseError, match=message) as raised:
        trusted_set(f"file:{source}", own(), part(truth=True), data_seed=0)
    assert "bad.npz" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("source", ["missing.npz", "12.5", "ten", "."])
def test_what_is_neither_a_number_nor_a_file_is_an_error(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        LabelNoiseError, match=r"takes a number or a file like the data's, .* is neither"
    ):
        trusted_set(f"file:{source}", own(), part(truth=True), data_seed=0)


@pytest.mark.parametrize("asked", ["--5", "+-5", "validation:0", "validation:-3", "validation:x"])
def test_what_looks_like_a_number_but_is_none_is_an_error_too(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabelNoiseError):
        trusted_set(
            trusted_source(asked, "meta-ren", known=True), own(), part(truth=True), data_seed=0
        )


def test_a_file_that_is_no_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("not a zip")
    with pytest.raises(LabelNoiseError, match=r"text\.npz: no readable \.npz file"):
        trusted_set(f"file:{tmp_path / 'text.npz'}", own(), part(truth=True), data_seed=0)


def test_the_content_of_a_source_is_that_of_its_file(tmp_path: Path) -> None:
    save(tmp_path / "good.npz")
    assert content_of(f"file:{tmp_path / 'good.npz'}") == (tmp_path / "good.npz").read_bytes()
    for source in (None, "validation", "validation:5", f"file:{tmp_path}", "file:none.npz"):
        assert content_of(source) == b""


def test_a_trusted_set_is_scaled_and_augmented_like_the_training_part(tmp_path: Path) -> None:
    def brighter(images: Tensor, generator: torch.Generator) -> Tensor:
        return images + 1

    dataset = own(dtype=torch.uint8)
    like = Train(dataset.inputs, dataset.labels, unit(dataset.inputs), 7, seed=3, augment=brighter)
    source = save(tmp_path / "good.npz", x=np.full((6, 4, 5), 50, np.uint8))
    part_of_bytes = Noisy(torch.arange(3), dataset.inputs[:3], dataset.labels[:3], None)
    trusted = trusted_set(f"file:{source}", dataset, part_of_bytes, data_seed=0).as_train(like)
    assert trusted is not None
    assert len(trusted) == 6
    batch = next(trusted.forever(100))
    assert torch.allclose(batch.inputs, torch.full((6, 1, 4, 5), 51 / 255))
    assert trusted_set(None, dataset, part_of_bytes, data_seed=0).as_train(like) is None


# --- through a run --------------------------------------------------------------------------------


@pytest.fixture
def own_file(tmp_path: Path) -> str:
    """Two well-parted classes, four features; nobody knows which labels are wrong."""
    chance = np.random.default_rng(0)
    labels = np.arange(200) % 2
    inputs = chance.normal(size=(200, 4)) + 4 * labels[:, None]
    np.savez(
        tmp_path / "own.npz", x=inputs, y=np.where(np.arange(200) % 10 == 0, 1 - labels, labels)
    )
    return str(tmp_path / "own.npz")


@pytest.mark.parametrize("method", WITH_RATE)
def test_planted_noise_supplies_its_true_rate(method: str, tmp_path: Path) -> None:
    run = train("digits", method=method, noise="symmetric:0.3", epochs=1, out=tmp_path)
    realised = (run.samples["given"] != run.samples["truth"]).mean()
    assert run.header["noise_rate"] == pytest.approx(realised, abs=1e-6)
    assert realised == pytest.approx(0.3, abs=0.05)
    assert run.header["spec"]["noise_rate"] == "true"
    assert run.header["spec"]["settings"]["noise_rate"] is None
    assert run.header["trusted_rows"] == 0


@pytest.mark.parametrize("method", WITH_TRUSTED)
def test_planted_noise_supplies_the_true_validation_labels(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = divide(read("digits"), parse("symmetric:0.3"), 0).validation.truth

    def watched(method: Method, problem: Problem, train: Train, **more: Any) -> Any:
        assert right is not None
        assert problem.trusted is not None
        trusted = len(problem.trusted)
        wrong = int((more["validation"].labels != right).sum())
        found.append((trusted, wrong))
        if trusted == len(right):
            assert problem.trusted.labels.equal(right)
        return fit(method, problem, train, **more)

    found: list[tuple[int, int]] = []
    monkeypatch.setattr(experiment, "fit", watched)
    run = train("digits", method=method, noise="symmetric:0.3", epochs=1, out=tmp_path)
    assert run.header["trusted_rows"] == run.header["rows"]["validation"] > 0
    assert run.header["spec"]["trusted"] == "validation"
    assert run.header["noise_rate"] is None
    fewer = train(
        "digits", method=method, noise="symmetric:0.3", trusted=20, epochs=1, out=tmp_path
    )
    assert fewer.header["trusted_rows"] == 20
    assert fewer.path != run.path
    assert right is not None
    assert found[0] == (len(right), 0)  # the schedule watches right labels then, too
    assert found[1][0] == 20
    assert found[1][1] > 20


def test_a_benchmark_without_noise_has_rate_0(tmp_path: Path) -> None:
    run = train("digits", method="coteaching", epochs=1, out=tmp_path)
    assert run.header["noise_rate"] == 0
    assert run.rows[0]["selected_fraction"] == 1


def test_nominal_and_numbers_go_into_the_methods_own_field(tmp_path: Path) -> None:
    def settings(rate: float | str) -> Any:
        run = train(
            "digits",
            method="coteaching",
            noise="class-conditional:0.4",
            noise_rate=rate,
            epochs=1,
            out=tmp_path,
        )
        assert run.header["realised_noise"]["rate"] < 0.3  # not all classes have a partner
        told = run.header["spec"]["settings"]["noise_rate"]
        assert run.header["noise_rate"] == told
        return told, run.path

    nominal, path = settings("nominal")
    assert nominal == 0.4
    assert settings(0.4) == (0.4, path)  # asked for in two ways, it is the same run
    assert settings(0.1)[0] == 0.1


@pytest.mark.parametrize("method", WITH_RATE)
def test_on_own_data_it_says_how_to_pass_a_rate(method: str, own_file: str, tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"pass --noise-rate R, or --noise-rate auto to est"):
        train(own_file, method=method, epochs=1, out=tmp_path / "runs")
    with pytest.raises(LabelNoiseError, match="is not known: pass --noise-rate R or auto"):
        train(own_file, method=method, noise_rate="true", epochs=1, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    run = train(own_file, method=method, noise_rate=0.1, epochs=1, out=tmp_path / "runs")
    assert run.header["spec"]["settings"]["noise_rate"] == 0.1


def test_a_rate_among_the_changes_is_enough(own_file: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"method": "coteaching", "epochs": 1, "out": tmp_path / "runs"}
    run = train(own_file, changes={"noise_rate": 0.1}, **asked)
    assert run.header["spec"]["settings"]["noise_rate"] == 0.1
    assert train(own_file, noise_rate=0.1, **asked).path == run.path


@pytest.mark.parametrize("method", WITH_TRUSTED)
def test_on_own_data_it_says_how_to_pass_a_trusted_set(
    method: str, own_file: str, tmp_path: Path
) -> None:
    with pytest.raises(LabelNoiseError, match=r"pass --trusted FILE .* or --trusted N if you"):
        train(own_file, method=method, epochs=1, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    run = train(own_file, method=method, trusted="8", epochs=1, out=tmp_path / "runs")
    assert run.header["trusted_rows"] == 8
    assert run.header["spec"]["trusted"] == "validation:8"
    with pytest.raises(LabelNoiseError, match=r"the validation part has \d+ rows"):
        train(own_file, method=method, trusted=1000, epochs=1, out=tmp_path / "runs")


def test_noise_planted_in_own_data_makes_the_labels_before_it_the_truth(
    own_file: str, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"noise": "pair:0.2", "epochs": 1, "out": tmp_path / "runs"}
    run = train(own_file, method="coteaching", **asked)
    assert run.header["noise_rate"] == pytest.approx(0.2, abs=0.1)
    assert train(own_file, method="meta-ren", **asked).header["trusted_rows"] > 0


def test_another_content_of_a_trusted_file_is_another_run(own_file: str, tmp_path: Path) -> None:
    chance, paths = np.random.default_rng(1), set()
    for _ in range(2):
        np.savez(tmp_path / "good.npz", x=chance.normal(size=(10, 4)), y=np.arange(10) % 2)
        for _ in range(2):
            run = train(
                own_file,
                method="meta-ren",
                trusted=str(tmp_path / "good.npz"),
                epochs=1,
                out=tmp_path / "runs",
            )
            assert run.header["trusted_rows"] == 10
            paths.add(run.path)
    assert len(paths) == 2


def test_trusted_samples_of_a_file_are_what_the_method_learns_by(
    own_file: str, tmp_path: Path
) -> None:
    """With every trusted label turned round it learns the opposite."""
    chance, labels = np.random.default_rng(1), np.arange(40) % 2
    inputs = chance.normal(size=(40, 4)) + 4 * labels[:, None]
    found = []
    for name, verified in (("right", labels), ("turned", 1 - labels)):
        np.savez(tmp_path / f"{name}.npz", x=inputs, y=verified)
        run = train(
            own_file,
            method="meta-ren",
            trusted=str(tmp_path / f"{name}.npz"),
            epochs=10,
            batch_size=16,
            changes={"lr": 0.01},
            out=tmp_path / "runs",
        )
        found.append(run.rows[-1]["test_accuracy"])
    assert found[0] > 0.8  # a tenth of the test labels is wrong, too
    assert found[1] < 0.2


def test_methods_that_take_neither_say_so(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="'bare' takes no noise rate"):
        train("digits", noise_rate=0.3, epochs=1, out=tmp_path)
    with pytest.raises(LabelNoiseError, match="'cce' takes no trusted set"):
        train("digits", method="cce", trusted=10, epochs=1, out=tmp_path)


def test_an_estimated_rate_is_kept_for_the_rest_of_the_run(
    own_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"method": "coteaching", "noise_rate": "auto", "epochs": 1}
    run = train(own_file, out=tmp_path / "runs", **asked)
    assert 0 <= run.header["noise_rate"] < 1
    assert run.header["spec"]["noise_rate"] == "auto"
    assert run.header["spec"]["settings"]["noise_rate"] is None

    def never(*words: Any) -> Any:
        raise AssertionError("it was estimated again")

    monkeypatch.setattr(experiment, "estimator", never)
    (run.path / "done").unlink()
    again = train(own_file, out=tmp_path / "runs", **asked)
    assert again.header["noise_rate"] == run.header["noise_rate"]
