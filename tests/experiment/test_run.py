"""From data to a finished run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import labelnoise
from labelnoise.data import Known, read
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.parts import digest, divide
from labelnoise.experiment.predict import Predictor, inputs_of
from labelnoise.experiment.run import fulfil, train
from labelnoise.noise import parse

QUICK = {"epochs": 2}


def test_parts_are_disjoint_and_the_test_part_has_no_noise() -> None:
    dataset = read("digits")
    parts = divide(dataset, parse("symmetric:0.5"), data_seed=0)
    rows = torch.cat([parts.train.rows, parts.validation.rows])
    assert len(torch.unique(rows)) == len(rows)
    assert len(rows) + len(parts.test.labels) == len(dataset.labels)
    assert parts.train.truth is not None
    assert torch.equal(dataset.labels[parts.train.rows], parts.train.truth)
    assert torch.equal(dataset.inputs[parts.train.rows], parts.train.inputs)
    for part in (parts.train, parts.validation):
        assert part.truth is not None
        assert float((part.given != part.truth).double().mean()) == pytest.approx(0.5, abs=0.1)


def test_split_and_noise_come_from_the_data_seed() -> None:
    dataset, noise = read("digits"), parse("symmetric:0.5")
    one, same, other = (divide(dataset, noise, data_seed) for data_seed in (0, 0, 1))
    assert torch.equal(one.train.given, same.train.given)
    assert torch.equal(one.train.rows, same.train.rows)
    assert not torch.equal(one.train.rows, other.train.rows)


def test_truth_of_own_data_is_unknown_without_planted_noise() -> None:
    inputs, labels = torch.randn(40, 3), torch.arange(40) % 2
    dataset = Dataset("own", inputs, labels, ("a", "b"))
    assert divide(dataset, parse("none"), 0).train.truth is None
    assert divide(dataset, parse("pair:0.1"), 0).train.truth is not None
    assert divide(read("digits"), parse("none"), 0).train.truth is not None


def test_too_few_rows_is_an_error() -> None:
    dataset = Dataset("own", torch.randn(2, 3), torch.arange(2), ("a", "b"))
    with pytest.raises(LabelNoiseError, match="too few rows"):
        divide(dataset, parse("none"), 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"noise": "symetric:0.5"}, "did you mean 'symmetric'"),
        ({"method": "bear"}, "did you mean 'bare'"),
        ({"net": "mpl"}, "did you mean 'mlp'"),
        ({"preset": "papr"}, "did you mean 'paper'"),
        ({"changes": {"kapa": 1}}, "did you mean 'kappa'"),
    ],
)
def test_what_is_misspelt_is_said_before_the_data_are_read(
    wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(LabelNoiseError, match=said):
        train(str(tmp_path / "not there.npz"), out=tmp_path, **wrong)


def test_digest_follows_the_data_not_the_name(tmp_path: Path) -> None:
    dataset = read("digits")
    assert digest(dataset) == digest(read("digits"), parse("symmetric:0.2").content)
    inputs = dataset.inputs.clone()
    inputs[5, 0, 0, 0] += 1
    changed = Dataset("digits", inputs, dataset.labels, dataset.classes)
    assert digest(changed) != digest(dataset)
    hashes = set()
    for rate in (0.1, 0.2):
        np.save(tmp_path / "matrix.npy", (1 - rate) * np.eye(10) + rate / 10)
        hashes.add(digest(dataset, parse(f"matrix:{tmp_path / 'matrix.npy'}").content))
    assert len(hashes) == 2


def test_same_seed_same_rows_other_seed_other_rows(tmp_path: Path) -> None:
    def rows(seed: int, out: str) -> list[dict[str, object]]:
        run = train("digits", seed=seed, changes=QUICK, noise="pair:0.2", out=tmp_path / out)
        return [{k: v for k, v in row.items() if "seconds" not in k} for row in run.rows]

    assert rows(0, "a") == rows(0, "b")
    assert rows(0, "a") != rows(1, "a")


def test_changed_file_is_another_run(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    chance = np.random.default_rng(0)
    for _ in range(2):
        np.savez(file, x=chance.normal(size=(60, 4)), y=np.arange(60) % 2)
        train(str(file), changes=QUICK, out=tmp_path / "runs")
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_cnn_with_augmentation_trains_on_a_small_tree_of_cifar10s_layout(tmp_path: Path) -> None:
    chance, folder = np.random.default_rng(0), tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for name in (*(f"data_batch_{part}.bin" for part in range(1, 6)), "test_batch.bin"):
        records = chance.integers(256, size=(40, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(40) % 10
        (folder / name).write_bytes(records.tobytes())
    asked = {"noise": "class-conditional:0.4", "preset": "as-printed", "data_dir": tmp_path}
    run = train("cifar10", changes={"epochs": 1}, out=tmp_path / "runs", **asked)  # type: ignore[arg-type]
    assert run.header["spec"]["net"] == "cnn"
    assert run.header["spec"]["training"]["augment"] is True
    assert run.summary()["epochs"] == 1


DROPOUT = """
import math
from torch import nn
def net(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(math.prod(shape), classes))
"""


def test_a_net_with_dropout_gives_the_same_rows_and_leaves_the_callers_chance_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("dropping.py").write_text(DROPOUT)
    losses: list[list[float]] = []
    for out in ("a", "b"):
        torch.manual_seed(len(losses))
        before = torch.get_rng_state()
        run = train("digits", net="dropping:net", epochs=2, out=out)
        assert torch.equal(torch.get_rng_state(), before)
        losses.append([row["train_loss"] for row in run.rows])
    assert losses[0] == losses[1]


def test_changed_source_of_an_own_net_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for comment in ("one", "two"):
        Path("changing.py").write_text(f"{DROPOUT}# {comment}")
        train("digits", net="changing:net", epochs=1, out="runs")
    assert len(list(Path("runs").iterdir())) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("net = lambda shape, classes: 3", "it gave a int"),
        ("import torch\nclass net(torch.nn.Module): pass", "cannot build net"),
        (
            "import torch\ndef net(shape, classes): return torch.nn.Flatten()",
            r"two samples gave \(2, 64\)",
        ),
        (
            "import torch\ndef net(shape, classes): return torch.nn.Linear(3, classes)",
            "inputs of shape",
        ),
    ],
)
def test_own_net_that_breaks_the_contract_is_told_it(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"broken{abs(hash(source))}"
    Path(f"{name}.py").write_text(source)
    with pytest.raises(LabelNoiseError, match=message) as raised:
        train("digits", net=f"{name}:net", epochs=1)
    assert "\n" not in str(raised.value)


def test_parts_of_instance_noise_follow_the_same_rule() -> None:
    inputs = torch.randn(20_000, 5, generator=torch.Generator().manual_seed(0))
    dataset = Dataset("own", inputs, torch.zeros(20_000, dtype=torch.long), ("a", "b", "c"))
    twice = Dataset("own", inputs, dataset.labels, dataset.classes, split=_both)
    parts = divide(twice, parse("instance:0.5"), data_seed=3)
    wrong = (parts.train.given > 0) & (parts.validation.given > 0)
    agree = (parts.train.given == parts.validation.given)[wrong].double().mean()
    assert float(agree) > 0.57  # with projections of their own: 0.50


def _both(labels: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The same rows as training and as validation part."""
    return torch.arange(len(labels)), torch.arange(len(labels))


def test_predictor_refuses_what_it_was_not_trained_for(tmp_path: Path) -> None:
    run = train("digits", epochs=2, out=tmp_path)
    with pytest.raises(LabelNoiseError, match="these inputs are bytes"):
        Predictor(run).probs(torch.zeros(3, 1, 8, 8, dtype=torch.uint8))
    with pytest.raises(LabelNoiseError, match="has others"):
        inputs_of("digits", Known(("cat", "dog")))
    (run.path / "done").unlink()
    with pytest.raises(LabelNoiseError, match="not finished"):
        Predictor(run)


def test_augmenting_plain_features_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.zeros((30, 4)), y=np.arange(30) % 2)
    with pytest.raises(LabelNoiseError, match="no images to augment"):
        train(str(tmp_path / "own.npz"), changes={"augment": True}, out=tmp_path)


def test_header_reports_the_realised_noise(tmp_path: Path) -> None:
    run = train("digits", noise="class-conditional:0.4", changes=QUICK, out=tmp_path)
    noise = run.header["realised_noise"]
    samples = run.samples
    assert noise["rate"] == pytest.approx((samples["given"] != samples["truth"]).mean())
    assert np.sum(noise["transition"], axis=1) == pytest.approx(np.ones(10))
    assert noise["transition"][0][0] == 1.0
    assert noise["transition"][7][1] == pytest.approx(0.4, abs=0.15)


def test_predictor_gives_probabilities_of_the_trained_net(tmp_path: Path) -> None:
    run = train("digits", noise="symmetric:0.2", changes={"epochs": 5}, out=tmp_path)
    dataset = read("digits")
    parts = divide(dataset, parse("symmetric:0.2"), 0)
    probs = Predictor(run).probs(parts.test.inputs)
    assert torch.allclose(probs.sum(dim=1), torch.ones(len(probs)))
    right = (probs.argmax(dim=1) == parts.test.labels).double().mean()
    assert float(right) == run.summary()["test_accuracy"]


def test_public_names_are_all_there() -> None:
    for name in labelnoise.__all__:
        assert getattr(labelnoise, name) is not None
    assert set(labelnoise.__all__) == set(dir(labelnoise))
    with pytest.raises(AttributeError, match="nothing"):
        _ = labelnoise.nothing


def test_a_whole_run_trains_on_every_row_and_holds_nothing_out(tmp_path: Path) -> None:
    ask = Ask("digits", noise="symmetric:0.3", epochs=2, whole=True)
    run = fulfil(ask, out=tmp_path)
    assert run.header["rows"] == {"train": 1797, "validation": 0, "test": 0}
    assert sorted(run.samples["row"]) == list(range(1797))
    assert abs(run.header["realised_noise"]["rate"] - 0.3) < 0.03
    summary = run.summary()
    assert summary["test_accuracy"] is summary["test_accuracy_best"] is None
    assert summary["label_precision"] > 0.5
    assert fulfil(ask, out=tmp_path).path == run.path
    other = fulfil(replace(ask, whole=False), out=tmp_path)
    assert other.path != run.path
