"""The paper's numbers: all of them, as they were published, and none besides."""

from __future__ import annotations

import csv
import re
import tomllib
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from labelnoise.experiment.ask import Ask
from labelnoise.experiment.published import Number, published
from labelnoise.experiment.spec import Spec
from labelnoise.noise.transition import NAMED, named

TARGETS = Path(__file__).parents[3] / "shared" / "paper_targets.csv"

DATASETS = {
    "MNIST": "mnist",
    "CIFAR-10": "cifar10",
    "Clothing-1M": "clothing1m-balanced",
    "Food-101N": "food101n",
    "": None,
}
METHODS = {
    "CoT": "coteaching",
    "CoT+": "coteaching-plus",
    "MR": "meta-ren",
    "MN": "meta-net",
    "CL": "curriculum-loss",
    "": None,
}  # the others are called as the paper calls them, in small letters
METRICS = {
    "test_acc_final": "test_accuracy",
    "test_acc_mean_last10": "test_accuracy_last10",
    "runtime_s": "run_seconds",
    "selected_fraction": "selected_fraction",
    "selected_samples_per_epoch": "selected_samples",
    "compute_relative_to_BARE": "cost_over_bare",
    "transition_prob": "transition",
}


def translated(row: dict[str, str]) -> dict[str, Any]:
    """A line of the list of targets in our words."""
    dataset, rate = DATASETS[row["dataset"]], row["rate"]
    noise = {
        "sym": f"symmetric:{rate}",
        "cc": f"class-conditional:{rate}",
        "arbitrary": f"matrix:{dataset}-arbitrary",
        "natural": "none",
        "": None,
    }[row["noise"]]
    place = re.fullmatch(r"row\(clean\)=(\d);col\(noisy\)=(\d)", row["note"])
    return {
        "dataset": dataset,
        "noise": noise,
        "method": METHODS.get(row["algorithm"], row["algorithm"].lower()),
        "batch_size": int(row["batch_size"]) if row["batch_size"] else None,
        "kappa": float(row["kappa"]) if row["kappa"] else None,
        "epochs": int(row["epochs"]) if row["epochs"] else None,
        "metric": METRICS[row["metric"]],
        "mean": float(row["mean"]),
        "std": float(row["std"]) if row["std"] else None,
        "bold": row["bold"] == "1",
        "note": "" if place else row["note"],
        "label": row["table_label"] if row["table_id"] == "text" else "",
        "noise_rate": float(rate.removeprefix("~")) if row["noise"] == "natural" else None,
        "true_label": int(place[1]) if place else None,
        "given_label": int(place[2]) if place else None,
    }


def counted(numbers: list[dict[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(number.items())) for number in numbers)


@pytest.fixture(scope="module")
def targets() -> list[dict[str, str]]:
    if not TARGETS.is_file():
        pytest.skip(f"{TARGETS} is not there: it lies beside the repository, not in it")
    with TARGETS.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_target_is_published_and_nothing_else(targets: list[dict[str, str]]) -> None:
    tables = published().tables
    assert set(tables) == {row["table_id"] for row in targets}
    for name, numbers in tables.items():
        expected = [translated(row) for row in targets if row["table_id"] == name]
        assert counted([number.model_dump() for number in numbers]) == counted(expected), name
    assert sum(map(len, tables.values())) == len(targets) == 222


def test_tables_carry_the_papers_labels(targets: list[dict[str, str]]) -> None:
    text = resources.files("labelnoise.experiments").joinpath("published.toml").read_text()
    labels = {name: part["label"] for name, part in tomllib.loads(text).items() if "label" in part}
    assert labels == {
        row["table_id"]: row["table_label"] for row in targets if row["table_id"] != "text"
    }


def test_some_numbers_as_they_are_printed() -> None:
    """Read from the paper itself, so that they hold where the list of targets is not at hand."""
    tables = published().tables
    assert [(number.method, number.mean, number.std) for number in tables["T4"]] == [
        ("coteaching", 90.8, 0.18),
        ("coteaching-plus", 93.17, 0.3),
        ("meta-ren", 90.39, 0.07),
        ("meta-net", 74.94, 9.56),
        ("curriculum-loss", 92.0, 0.26),
        ("cce", 74.3, 0.55),
        ("bare", 94.38, 0.13),
    ]
    times = {(number.dataset, number.method): number.mean for number in tables["T1"]}
    assert times["mnist", "bare"] / times["mnist", "cce"] == pytest.approx(1.35, abs=0.005)
    assert times["cifar10", "meta-net"] / times["cifar10", "cce"] == pytest.approx(10.77, abs=0.005)
    assert len(times) == 14


@pytest.mark.parametrize("name", ["mnist-arbitrary", "cifar10-arbitrary"])
def test_the_published_matrices_are_those_that_noise_is_drawn_from(name: str) -> None:
    matrix = torch.zeros(10, 10, dtype=torch.float64)
    for number in published().tables["matrix"]:
        if number.noise == f"matrix:{name}":
            assert number.true_label is not None
            assert number.given_label is not None
            assert matrix[number.true_label, number.given_label] == 0
            matrix[number.true_label, number.given_label] = number.mean
    assert torch.equal(matrix, named(name))
    assert torch.equal(matrix, torch.tensor(NAMED[name], dtype=torch.float64))
    assert matrix.sum(dim=1) == pytest.approx(torch.ones(10, dtype=torch.float64))


# --- which number a run is compared with ----------------------------------------------------------


def spec(noise: str = "symmetric:0.5", method: str = "bare", **asks: Any) -> Spec:
    asks = {"data": "mnist", "net": "mlp", "preset": "paper", **asks}
    ask = Ask(noise=noise, method=method, **asks)
    return ask.spec(dataset=ask.data, digest="d" * 32, net=ask.net, known=True)


def mean_of(tables: list[str], one: Spec, metric: str = "test_accuracy") -> float | None:
    number = published().find(tables, one, metric)
    return None if number is None else number.mean


def test_a_run_is_compared_with_the_number_of_its_own_experiment() -> None:
    tables = ["T4", "T5", "T6"]
    assert mean_of(tables, spec()) == 94.38
    assert mean_of(tables, spec("symmetric:0.7")) == 91.61
    assert mean_of(tables, spec("class-conditional:0.45")) == 94.11
    assert mean_of(tables, spec(method="cce")) == 74.3
    assert mean_of(tables, spec(method="coteaching", noise_rate=0.5)) == 90.8
    assert mean_of(["T2", "T16"], spec(batch_size=64)) == 95.31
    assert mean_of(["T2", "T16"], spec("symmetric:0.3", batch_size=256)) == 95.62
    assert mean_of(["T19"], spec("symmetric:0.7", changes={"kappa": 0.5})) == 91.32
    assert mean_of(["T19"], spec("symmetric:0.7", changes={"kappa": -1})) == 58.25
    assert mean_of(["T1"], spec(), "run_seconds") == 310.64
    assert mean_of(["T1"], spec(data="cifar10"), "run_seconds") == 930.78
    arbitrary = spec("matrix:mnist-arbitrary")
    assert mean_of(["T10", "T11"], arbitrary) == 95.02
    assert mean_of(["T10", "T11"], arbitrary, "test_accuracy_last10") == 95.03


def test_the_length_of_a_run_does_not_hide_the_number() -> None:
    number = published().find(["T4"], spec(epochs=3), "test_accuracy")
    assert number is not None
    assert (number.mean, number.std, number.epochs) == (94.38, 0.13, 200)


@pytest.mark.parametrize(
    ("tables", "one"),
    [
        (["T5"], spec()),
        (["T4"], spec("symmetric:0.6")),
        (["T4"], spec(data="fashion-mnist")),
        (["T4"], spec(batch_size=64)),
        (["T4"], spec(changes={"kappa": 0.5})),
        (["T4"], spec(changes={"threshold": "midpoint"})),
        ([], spec()),
    ],
)
def test_a_run_that_the_paper_does_not_have_finds_nothing(tables: list[str], one: Spec) -> None:
    assert mean_of(tables, one) is None
    assert mean_of(["T4"], spec(), "label_recall") is None


def test_an_unknown_key_of_a_number_is_refused() -> None:
    with pytest.raises(ValidationError, match="deviation"):
        Number(metric="test_accuracy", mean=1.0, deviation=0.1)  # type: ignore[call-arg]


def test_other_data_are_told_from_the_official_ones_by_their_digest() -> None:
    known = published()
    assert "JPEG" in known.other_data("cifar10", "346a45dd8790216a7643e6bdcb806aff")
    assert known.other_data("cifar10", "d" * 32) == ""  # no official files of it were seen
    assert known.other_data("mnist", known.official["mnist"]) == ""
    assert known.other_data("mnist", "d" * 32).startswith("not the official files")
    for digest in (*known.others, *known.official.values()):
        assert re.fullmatch("[0-9a-f]{32}", digest)
