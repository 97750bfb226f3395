"""The paper's recipes for large images: what they are, and that they run on small ones.

At their own size, with their own net, on files of the official layouts: data/test_web_recipes.py.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labelnoise.cli import main
from labelnoise.data import read
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment import run as running
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.grid import cells, experiment_named, parse_experiment
from labelnoise.experiment.outcome import Result, lines
from labelnoise.experiment.predict import Predictor
from labelnoise.experiment.run import fulfil, specify, train
from labelnoise.experiment.spec import Training
from labelnoise.nets import net_named

SIDE, CROP, ROWS = 40, 32, 60
SHARED = {
    "optimiser": "sgd", "weight_decay": 1e-3, "schedule": "steps", "scale": "imagenet",
    "augment": True, "crop": 224, "weights": "resnet50.pth",
}  # fmt: skip
CLOTHING: dict[str, Any] = {
    **SHARED, "epochs": 14, "batch_size": 256, "lr": 1e-3, "milestones": (6, 11), "decay": 0.5,
}  # fmt: skip
FOOD: dict[str, Any] = {
    **SHARED, "epochs": 30, "batch_size": 128, "lr": 1e-2, "milestones": (10, 20), "decay": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dataset", "training"),
    [("clothing1m", "clothing1m-balanced", CLOTHING), ("food101n", "food101n", FOOD)],
)
def test_the_shipped_recipes_have_the_papers_numbers(
    name: str, dataset: str, training: dict[str, Any]
) -> None:
    found = cells(experiment_named(name))
    assert [cell.settings["method"] for cell in found] == ["cce", "bare"]
    for cell in found:
        spec = cell.ask().without_data()
        assert (spec.dataset, spec.net, spec.noise) == (dataset, "resnet50", "none")
        assert spec.training == Training(**training)
    assert spec.settings["kappa"] == 1.0
    assert spec.settings["threshold"] == "batch"


@pytest.mark.parametrize(
    ("name", "numbers"), [("clothing1m", [68.94, 72.28]), ("food101n", [81.67, 84.12])]
)
def test_the_papers_numbers_stand_beside_them(name: str, numbers: list[float]) -> None:
    experiment = experiment_named(name)
    assert experiment.table is not None
    results = [Result(cell, ()) for cell in cells(experiment)]
    shown = lines(experiment.table, experiment.published, results)
    assert [line.paper for line in shown] == numbers


# --- small images, treated alike ------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small photographs of two kinds, and weights for them from a net of 1,000 classes."""
    folder = tmp_path_factory.mktemp("photographs")
    chance = np.random.default_rng(0)
    labels = np.arange(ROWS) % 2
    pixels = chance.integers(0, 128, (ROWS, 3, SIDE, SIDE))
    pixels[:, 0] += 100 * labels[:, None, None]
    np.savez(folder / "small.npz", x=pixels.astype(np.uint8), y=labels)
    torch.manual_seed(0)
    torch.save(net_named("resnet18")((3, 64, 64), 1000).state_dict(), folder / "resnet18.pth")
    return folder


def small(name: str, folder: Path, net: str = "resnet18", **others: Any) -> str:
    """A shipped recipe with other data, another net, and two epochs, one before the milestone."""
    shipped = resources.files("labelnoise.experiments").joinpath(f"{name}.toml").read_text()
    whole = tomllib.loads(shipped)
    base = {
        **whole["base"], "dataset": str(folder / "small.npz"), "net": net, "epochs": 2,
        "batch_size": 16, "weights": f"{net}.pth", "crop": CROP, "milestones": [1], **others,
    }  # fmt: skip
    words = {True: "true", False: "false"}
    settings = [
        f"{key} = {words[value] if isinstance(value, bool) else repr(value)}"
        for key, value in base.items()
    ]
    head = ['title = "small"', 'explains = "small"', "trials = 1", "[base]", *settings]
    return "\n".join([*head, '[axes]\nmethod = ["cce", "bare"]', *TABLE])


TABLE = ("[table]", 'block = "dataset"', 'line = "method"')


def test_a_recipe_runs_end_to_end(folder: Path, tmp_path: Path) -> None:
    _, bare = cells(parse_experiment(small("clothing1m", folder), "small.toml"))
    run = fulfil(bare.ask(), out=tmp_path, data_dir=folder)
    assert run.done
    assert [row["lr"] for row in run.rows] == pytest.approx([1e-3, 5e-4])
    inputs = read(str(folder / "small.npz")).inputs
    predictor = Predictor(run)
    probs = predictor.probs(inputs)
    assert probs.shape == (ROWS, 2)
    edge = (SIDE - CROP) // 2
    framed = inputs.clone()  # only the centre is looked at
    framed[:, :, :edge] = framed[:, :, -edge:] = 0
    framed[:, :, :, :edge] = framed[:, :, :, -edge:] = 255
    assert predictor.probs(framed).equal(probs)
    framed[:, :, edge] = 255
    assert not predictor.probs(framed).equal(probs)


def test_missing_weights_fail_before_data_are_read(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(small("food101n", tmp_path / "no data here", "resnet50"))
    words = ["reproduce", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "runs")]
    assert main([*words, "--data-dir", str(tmp_path)]) == 1
    told = "".join(capsys.readouterr())
    assert "resnet50-0676ba61.pth" in " ".join(told.split())


ASK: dict[str, Any] = {"method": "cce", "net": "resnet18", "epochs": 1, "batch_size": 32}


def test_weights_are_named_by_option_and_begun_with(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a learning rate of nearly nothing the network is still what it began as."""
    monkeypatch.chdir(folder)
    changes = {"lr": 1e-30, "optimiser": "sgd", "schedule": "constant"}
    run = train("small.npz", weights="resnet18.pth", out=tmp_path, changes=changes, **ASK)
    begun = torch.load("resnet18.pth", weights_only=True)
    trained = run.checkpoint()["method"]["learner"]["network"]
    names = [name for name in begun if name.endswith("conv2.weight")]
    assert all(trained[name].equal(begun[name]) for name in names)
    assert trained["fc.weight"].shape == (2, 512)
    assert run.header["spec"]["training"]["weights"] == "resnet18.pth"


def test_the_content_of_weights_makes_another_run(folder: Path, tmp_path: Path) -> None:
    ask = Ask(data=str(folder / "small.npz"), changes={"weights": "w.pth"}, **ASK)
    dataset, file = read(ask.data), tmp_path / "w.pth"
    found = []
    for content in (b"one", b"two"):
        file.write_bytes(content)
        assert running.check_words(ask, tmp_path) == file
        found.append(specify(ask, dataset, file).identity())
    without = specify(Ask(data=ask.data, **ASK), dataset)
    assert len({*found, without.identity()}) == 3
    assert without.digest == dataset.fingerprint.hexdigest()  # as before there were weights


def test_what_is_wrong_with_weights_or_crop_is_said_on_one_line(
    folder: Path, tmp_path: Path
) -> None:
    data = str(folder / "small.npz")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"weights": "nowhere.pth"}, r"no weights 'nowhere\.pth'.*resnet18-f37072fd.*weights none"),
        ({"weights": str(folder / "resnet18.pth"), "net": "resnet34"}, "is for another network"),
        ({"weights": data}, r"ends in \.pth"),
        ({"changes": {"crop": 41}}, r"crop 41 needs images of at least 41x41.*3x40x40"),
        ({"changes": {"schedule": "steps"}}, "set milestones"),
    ]
    for asked, said in wrong:
        with pytest.raises(LabelNoiseError, match=said) as raised:
            train(data, out=tmp_path / "runs", data_dir=tmp_path, **{**ASK, **asked})
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("augment", [False, True])
def test_networks_see_crops_in_training_and_centres_else(
    augment: bool, folder: Path, tmp_path: Path
) -> None:
    """Weights of the MLP have the size of the crop; only chance moves it about."""
    changes = {"crop": 20, "augment": augment}
    asked = {**ASK, "net": "mlp", "epochs": 2}
    run = train(str(folder / "small.npz"), out=tmp_path, changes=changes, **asked)
    network = run.checkpoint()["method"]["learner"]["network"]
    assert network["1.weight"].shape == (256, 3 * 20 * 20)
    assert run.header["shape"] == [3, SIDE, SIDE]


def test_what_suits_the_crop_is_chosen_by_its_size(folder: Path) -> None:
    dataset = read(str(folder / "small.npz"))
    asks = (Ask(dataset.name, changes={"crop": crop}) for crop in (None, 32, 12))
    assert [specify(ask, dataset).net for ask in asks] == ["cnn", "cnn", "mlp"]


def test_a_rate_is_estimated_on_the_same_crop_with_the_same_weights(folder: Path) -> None:
    from labelnoise.experiment.estimate import estimator

    changes = {"crop": CROP, "weights": "resnet18.pth"}
    ask = Ask(
        str(folder / "small.npz"), "coteaching", "symmetric:0.2", "auto", net="resnet18",
        changes=changes,
    )  # fmt: skip
    spec = specify(ask, read(ask.data), folder / "resnet18.pth")
    short = estimator(spec, ROWS)
    assert (short.training.crop, short.training.weights) == (CROP, "resnet18.pth")
    assert short.digest == spec.digest


def test_two_networks_begin_alike_but_for_their_classifiers(folder: Path, tmp_path: Path) -> None:
    changes = {"lr": 1e-30, "optimiser": "sgd", "schedule": "constant", "crop": CROP}
    asked = {**ASK, "method": "coteaching", "noise": "symmetric:0.2"}
    data, weights = str(folder / "small.npz"), str(folder / "resnet18.pth")
    run = train(data, weights=weights, out=tmp_path, changes=changes, **asked)
    states = run.checkpoint()["method"].values()
    networks = [each["network"] for each in states if isinstance(each, dict) and "network" in each]
    assert len(networks) == 2
    one, other = networks
    assert one["layer4.1.conv2.weight"].equal(other["layer4.1.conv2.weight"])
    assert not one["fc.weight"].equal(other["fc.weight"])


def test_the_command_line_takes_all_of_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = str(folder / "small.npz"), str(tmp_path / "runs")
    words = ["train", data, "--data-dir", str(folder), "--out", out, "--net", "resnet18"]
    words += ["--epochs", "1", "--batch-size", "32", "--weights", "resnet18.pth", "--json"]
    for change in ("crop=16", "scale=imagenet", "schedule=steps", "milestones=[1]", "augment=true"):
        words += ["--set", change]
    assert main(words) == 0, capsys.readouterr().err
    (header,) = (tmp_path / "runs").glob("*/header.json")
    (folder / "resnet18.pth").rename(folder / "gone.pth")  # to predict, nobody needs it
    try:
        predictions = tmp_path / "predictions.csv"
        assert main(["predict", str(header.parent), data, "--out", str(predictions)]) == 0
        assert len(predictions.read_text().splitlines()) == ROWS + 1
        capsys.readouterr()
        assert main(words) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "no weights 'resnet18.pth'" in told
    finally:
        (folder / "gone.pth").rename(folder / "resnet18.pth")
