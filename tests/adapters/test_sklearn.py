"""RobustClassifier against scikit-learn's own checks, and on data whose labels are half wrong."""

from __future__ import annotations

import builtins
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_checks
from torch import nn

from labelnoise import BARE, CCE, BARELoss, LabelNoiseError, Recorder, RobustClassifier
from labelnoise.audit.findings import COLUMNS
from labelnoise.nets.mlp import mlp
from labelnoise.seeds import derive, stream

Array = NDArray[Any]
QUICK = {"epochs": 20, "batch_size": 32, "lr": 2e-2, "random_state": 0}
CHECKS = Path(__file__).with_name("sklearn_checks.py")
PROGRAM = """
from sklearn.utils.estimator_checks import check_estimator
from labelnoise import RobustClassifier
for found in check_estimator(RobustClassifier()):
    print(found["status"])
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "sklearn_digits.py"


def quick(**parameters: Any) -> RobustClassifier:
    """Of few steps, each of which leads far."""
    return RobustClassifier(**{**QUICK, **parameters})


def flipped(truth: Array, rate: float, seed: int = 0) -> tuple[Array, Array]:
    """Labels of which so many are wrong, and which ones these are."""
    chance = np.random.default_rng(seed)
    classes = int(truth.max()) + 1
    wrong = chance.random(len(truth)) < rate
    other = (truth + chance.integers(1, classes, len(truth))) % classes
    return np.where(wrong, other, truth), wrong


@pytest.fixture(scope="module")
def iris() -> tuple[Array, Array]:
    inputs, labels = load_iris(return_X_y=True)
    return inputs, labels


def run(*words: str | Path) -> str:
    """What a program prints; scikit-learn skips none of its checks where this variable is set."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_dict_unchanged,
        estimator_checks.check_fit_idempotent,
        estimator_checks.check_n_features_in_after_fitting,
        estimator_checks.check_classifiers_classes,
        estimator_checks.check_dataframe_column_names_consistency,
    ],
    ids=lambda check: check.__name__,
)
def test_some_of_scikit_learns_own_checks(check: Callable[[str, Any], None]) -> None:
    """Those that catch most; `sklearn_checks.py` has all."""
    check("RobustClassifier", RobustClassifier(epochs=8, batch_size=32, lr=2e-2))


@pytest.mark.long
def test_scikit_learns_own_checks_pass_one_by_one() -> None:
    printed = run("-m", "pytest", "-p", "no:cacheprovider", "-n", "0", CHECKS)
    passed = re.fullmatch(r"(\d+) passed in .*", printed.splitlines()[-1])
    assert passed, printed  # and nothing skipped or expected to fail
    assert int(passed[1]) > 40


@pytest.mark.long
def test_scikit_learns_own_checks_pass_with_nothing_set() -> None:
    printed = run("-c", PROGRAM)
    assert "passed" in printed
    assert printed.split() == ["passed"] * len(printed.split())
    assert len(printed.split()) > 40


def test_half_wrong_digits_are_learned_and_the_wrong_labels_found() -> None:
    inputs, truth = load_digits(return_X_y=True)
    train, test, right, answers = train_test_split(inputs, truth, random_state=0, stratify=truth)
    given, wrong = flipped(right, 0.5)
    robust = RobustClassifier(random_state=0).fit(train, given)
    plain = RobustClassifier("cce", random_state=0).fit(train, given)
    assert robust.score(test, answers) > max(0.9, plain.score(test, answers) + 0.05)
    found = robust.label_issues_
    assert (found & wrong).sum() / found.sum() > 0.9  # precision
    assert (found & wrong).sum() / wrong.sum() > 0.9  # recall
    assert robust.label_quality_.shape == given.shape
    assert ((robust.label_quality_ >= 0) & (robust.label_quality_ <= 1)).all()
    assert robust.label_quality_[wrong].mean() < 0.2 < 0.8 < robust.label_quality_[~wrong].mean()
    assert robust.noise_rate_ == pytest.approx(wrong.mean(), abs=0.08)
    assert robust.transition_matrix_.shape == (10, 10)
    assert np.allclose(robust.transition_matrix_.sum(axis=1), 1)
    assert np.diag(robust.transition_matrix_) == pytest.approx(0.5, abs=0.2)


def test_label_quality_is_what_a_recorder_gives_in_a_loop_of_ones_own(
    iris: tuple[Array, Array],
) -> None:
    inputs, labels = iris
    given, _ = flipped(labels, 0.3)
    epochs, lr, batch_size = 12, 1e-2, 50
    robust = RobustClassifier(
        epochs=epochs, lr=lr, batch_size=batch_size, schedule="constant", random_state=3
    ).fit(inputs, given)

    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    torch.manual_seed(derive(seed, "init", 0))
    network = mlp((4,), 3)
    scaled = (inputs.astype(np.float32) - inputs.mean(axis=0)) / inputs.std(axis=0)
    samples, targets = torch.tensor(scaled, dtype=torch.float32), torch.as_tensor(given)
    optimiser = torch.optim.Adam(network.parameters(), lr=lr)
    criterion, recorder = BARELoss(samples=len(targets)), Recorder(len(targets))
    for epoch in range(epochs):
        order = torch.randperm(len(targets), generator=stream(seed, "order", epoch))
        for rows in torch.split(order, batch_size):
            logits = network(samples[rows])
            loss = criterion(logits, targets[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if recorder.rule is None:  # made by the first batch
                recorder = Recorder(len(targets), rule=criterion.rule)  # type: ignore[arg-type]
            probs = logits.detach().softmax(dim=1)
            recorder.add(probs, targets[rows], rows, criterion.selected)
    found = recorder.issues()
    assert robust.label_quality_ == pytest.approx(found.quality, abs=1e-4)
    assert robust.label_issues_.tolist() == found.issue.tolist()
    assert robust.label_issues_.any()
    probs = network(samples).softmax(dim=1).detach().numpy()
    assert robust.predict_proba(inputs) == pytest.approx(probs, abs=1e-4)


def test_labels_may_be_words_and_inputs_a_data_frame(iris: tuple[Array, Array]) -> None:
    inputs, labels = iris
    given, wrong = flipped(labels, 0.2)
    names = np.array(["versicolor", "virginica", "setosa"])
    frame = pd.DataFrame(inputs, columns=list("abcd")).sample(frac=1, random_state=0)
    words = pd.Series(names[given]).loc[frame.index]
    robust = RobustClassifier(random_state=0).fit(frame, words)
    assert robust.classes_.tolist() == sorted(names)
    assert robust.feature_names_in_.tolist() == list("abcd")
    assert set(robust.predict(frame)) == set(names)
    assert (robust.predict(frame) == names[labels[frame.index]]).mean() > 0.85
    with pytest.raises(ValueError, match="feature names"):
        robust.predict(frame.rename(columns={"a": "z"}))

    issues = robust.find_label_issues()
    assert tuple(issues.columns) == COLUMNS[1:]
    assert issues.index.equals(frame.index)
    assert issues["given_label"].tolist() == words.tolist()
    assert issues["is_label_issue"].tolist() == robust.label_issues_.tolist()
    assert (issues["is_label_issue"] == (issues["label_quality"] < 0.5)).all()
    flagged = issues[issues["is_label_issue"]]
    assert (flagged["predicted_label"] != flagged["given_label"]).all()
    assert wrong[flagged.index].mean() > 0.7
    assert robust.findings_.classes == tuple(robust.classes_)


def test_without_pandas_the_table_is_a_dictionary_of_arrays(
    iris: tuple[Array, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    robust = quick().fit(*iris)
    table = robust.find_label_issues()
    real = builtins.__import__

    def without_pandas(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    columns = robust.find_label_issues()
    assert list(columns) == list(COLUMNS[1:])
    for name, values in columns.items():
        assert values.tolist() == table[name].tolist()


def test_in_a_pipeline_with_columns_of_words() -> None:
    chance = np.random.default_rng(0)
    colour = chance.choice(["red", "green"], 300)
    frame = pd.DataFrame({"colour": colour, "size": 1000 + 5 * chance.normal(size=300)})
    labels = np.where(colour == "red", "warm", "cold")
    with pytest.raises(ValueError, match="could not convert string to float"):
        quick().fit(frame, labels)
    columns = make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["size"]))
    given = labels.copy()
    given[:30] = np.where(labels[:30] == "warm", "cold", "warm")
    pipeline = make_pipeline(columns, RobustClassifier(random_state=0)).fit(frame, given)
    assert pipeline.score(frame, labels) == 1
    assert pipeline[-1].label_issues_.tolist() == [True] * 30 + [False] * 270


def test_grid_search_over_fields_of_the_method_and_of_the_training(
    iris: tuple[Array, Array],
) -> None:
    pipeline = make_pipeline(StandardScaler(), quick())
    grid = {
        "robustclassifier__method_params": [{"threshold": "evidence"}, {"threshold": "batch"}],
        "robustclassifier__lr": np.array([1e-9, 1e-2]),
        "robustclassifier__epochs": np.array([10]),
    }
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(*iris)
    assert search.best_params_["robustclassifier__lr"] == 1e-2
    assert search.best_score_ > 0.9
    assert search.best_estimator_[-1].label_quality_.shape == (150,)


def test_trusted_rows_go_through_a_pipeline_and_are_divided_in_a_search(
    iris: tuple[Array, Array],
) -> None:
    given, wrong = flipped(iris[1], 0.3)
    mask = ~wrong & (np.arange(150) % 3 == 0)
    pipeline = make_pipeline(StandardScaler(), quick(method="meta-ren"))
    pipeline.fit(iris[0], given, robustclassifier__trusted=mask)
    assert pipeline.score(*iris) > 0.8
    search = GridSearchCV(quick(method="meta-ren"), {"lr": [2e-2]}, cv=2, error_score="raise")
    assert search.fit(iris[0], given, trusted=mask).score(*iris) > 0.8


def test_after_a_failed_fit_it_is_not_fitted(iris: tuple[Array, Array]) -> None:
    robust = quick(method="coteaching")
    with pytest.raises(LabelNoiseError):
        robust.fit(*iris)
    with pytest.raises(NotFittedError):
        robust.predict(iris[0])
    with pytest.raises(NotFittedError):
        robust.find_label_issues()


def test_a_failed_refit_leaves_nothing_of_the_fit_before(iris: tuple[Array, Array]) -> None:
    with config_context(enable_metadata_routing=True):
        robust = quick(epochs=1).set_fit_request(trusted=True)
    untrained = set(vars(robust))  # what a user asked for is not learned, and stays
    assert set(vars(robust.fit(*iris))) > untrained
    with pytest.raises(LabelNoiseError, match="at least two classes"):
        robust.fit(iris[0][:50, :2], iris[1][:50])
    with pytest.raises(NotFittedError):
        robust.predict(iris[0])
    assert not hasattr(robust, "label_quality_")
    robust.fit(*iris)
    with pytest.raises(ValueError, match="NaN"):
        robust.fit(np.full((3, 2), np.nan), [0, 1, 1])
    assert set(vars(robust)) == untrained
    pickle.loads(pickle.dumps(robust))  # noqa: S301


def test_ensembles_and_cross_validation_take_it(iris: tuple[Array, Array]) -> None:
    assert (cross_val_predict(quick(), *iris, cv=2) == iris[1]).mean() > 0.9
    bagged = BaggingClassifier(quick(), n_estimators=2, random_state=0).fit(*iris)
    assert bagged.score(*iris) > 0.9


class Narrow(nn.Module):
    """A net of the user's own."""

    def __init__(self, shape: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.dense = nn.Linear(shape[0], num_classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.dense(self.drop(inputs))
        return scores


def test_a_clone_is_untrained_and_learns_the_same(iris: tuple[Array, Array]) -> None:
    first = quick(method=BARE("midpoint"), module=Narrow((4,), 3)).fit(*iris)
    second = clone(first)
    assert not hasattr(second, "classes_")
    assert second.method == BARE("midpoint")
    second.set_params(module=first.module).fit(*iris)
    assert np.array_equal(first.predict_proba(iris[0]), second.predict_proba(iris[0]))


TOLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bare": ({}, {}),
    "cce": ({}, {}),
    "coteaching": ({"noise_rate": 0.1}, {}),
    "coteaching-plus": ({"noise_rate": 0.1}, {}),
    "curriculum-loss": ({"method_params": {"noise_rate": 0.1}}, {}),
    "gce": ({}, {}),
    "meta-net": ({}, {"trusted": np.arange(150) % 5 == 0}),
    "meta-ren": ({}, {"trusted": np.arange(150) % 5 == 0}),
}


@pytest.mark.parametrize("name", TOLD)
def test_every_method_learns_judges_and_comes_back_from_a_pickle(
    name: str, iris: tuple[Array, Array]
) -> None:
    parameters, told = TOLD[name]
    robust = quick(method=name, epochs=10, **parameters).fit(*iris, **told)
    assert robust.score(*iris) > 0.8
    assert robust.label_quality_.shape == (150,)
    again = pickle.loads(pickle.dumps(robust))  # noqa: S301
    assert np.array_equal(again.predict_proba(iris[0]), robust.predict_proba(iris[0]))
    assert again.find_label_issues().equals(robust.find_label_issues())
    assert again.get_params() == robust.get_params()
    assert again.fit(*iris, **told).label_quality_.tolist() == robust.label_quality_.tolist()


def test_two_networks_predict_the_mean_of_their_probabilities(iris: tuple[Array, Array]) -> None:
    robust = quick(method="coteaching", noise_rate=0.1, scale="raw").fit(*iris)
    inputs = torch.tensor(iris[0], dtype=torch.float32)
    each = [learner.log_probs(inputs).exp().numpy() for learner in robust.method_.learners()]
    assert len(each) == 2
    assert not np.allclose(each[0], each[1], atol=1e-3)
    assert robust.predict_proba(iris[0]) == pytest.approx(np.mean(each, axis=0), abs=1e-6)


def test_a_pickle_is_of_what_was_trained_not_of_what_was_set_since(
    iris: tuple[Array, Array],
) -> None:
    robust = quick(module=Narrow).fit(*iris)
    before = robust.predict_proba(iris[0])
    robust.set_params(method="cce", module="mlp", epochs=3)
    again = pickle.loads(pickle.dumps(robust))  # noqa: S301
    assert np.array_equal(again.predict_proba(iris[0]), before)
    assert again.method == "cce"


@pytest.mark.parametrize("module", ["lenet", pytest.param(None, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_images(module: str | None, kind: type) -> None:
    pixels, truth = load_digits(n_class=3, return_X_y=True)
    images = pixels.reshape(-1, 8, 8).repeat(4, axis=1).repeat(4, axis=2).astype(kind)
    robust = quick(module=module, epochs=5, lr=2e-3)
    grey = robust.fit(images, truth).predict_proba(images)
    assert robust.score(images, truth) > 0.95
    with_channel = robust.fit(images[:, None], truth).predict_proba(images[:, None])
    assert np.array_equal(grey, with_channel)
    with pytest.raises(ValueError, match=r"inputs of shape \(1, 32, 16\)"):
        robust.predict(images[:, None, :, ::2])


def test_images_have_a_net_that_suits_them_by_default() -> None:
    images, labels = np.random.default_rng(0).random((20, 3, 32, 32)), np.arange(20) % 2
    robust = quick(epochs=1, batch_size=10).fit(images, labels)
    assert any(isinstance(part, nn.Conv2d) for part in robust.method_.learner.network.modules())
    assert robust.predict_proba(images).shape == (20, 2)


@pytest.mark.parametrize(
    "module",
    [None, "mlp", "labelnoise.nets.mlp:mlp", mlp, Narrow, Narrow((4,), 3), nn.Linear(4, 3)],
    ids=["default", "name", "address", "function", "class", "module", "layer"],
)
def test_modules_of_all_kinds(module: Any, iris: tuple[Array, Array]) -> None:
    before = pickle.dumps(module.state_dict()) if isinstance(module, nn.Module) else b""
    robust = quick(module=module).fit(*iris)
    assert robust.score(*iris) > 0.8
    assert robust.module is module
    after = pickle.dumps(module.state_dict()) if isinstance(module, nn.Module) else b""
    assert before == after  # the caller's own is never trained


def test_training_goes_on_from_the_weights_of_a_module(iris: tuple[Array, Array]) -> None:
    taught = quick(module=Narrow).fit(*iris)
    network = taught.method_.learner.network
    further = quick(module=network, epochs=1, lr=1e-9).fit(*iris)
    assert further.predict_proba(iris[0]) == pytest.approx(taught.predict_proba(iris[0]), abs=1e-6)


def test_a_method_of_ones_own_is_copied(iris: tuple[Array, Array]) -> None:
    method = CCE()
    robust = quick(method=method).fit(*iris)
    assert vars(method) == {}
    named = quick(method="cce").fit(*iris)
    assert np.array_equal(robust.predict_proba(iris[0]), named.predict_proba(iris[0]))


def test_same_random_state_same_result_and_nobodys_chance_is_touched(
    iris: tuple[Array, Array],
) -> None:
    ours, theirs = torch.get_rng_state(), np.random.get_state()[1]  # type: ignore[index]
    threads = torch.get_num_threads()
    first, second = (quick(module=Narrow).fit(*iris) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), ours)
    assert np.array_equal(np.random.get_state()[1], theirs)  # type: ignore[index]
    assert torch.get_num_threads() == threads
    assert np.array_equal(first.predict_proba(iris[0]), second.predict_proba(iris[0]))
    assert np.array_equal(first.label_quality_, second.label_quality_)
    other = quick(module=Narrow, random_state=1).fit(*iris)
    assert not np.array_equal(first.predict_proba(iris[0]), other.predict_proba(iris[0]))


def test_a_rare_class_is_not_all_suspects() -> None:
    chance = np.random.default_rng(0)
    labels = np.array([0] * 500 + [1] * 500 + [2] * 10 + [3])
    inputs = chance.normal(size=(len(labels), 5))
    inputs[np.arange(len(labels)), labels] += 6
    robust = RobustClassifier(random_state=0).fit(inputs, labels)
    assert robust.label_issues_[labels == 2].mean() <= 0.2
    assert robust.label_issues_.mean() < 0.01
    assert robust.noise_rate_ < 0.02
    assert robust.predict_proba(inputs).shape == (len(labels), 4)


def test_the_noise_rate_may_be_estimated(iris: tuple[Array, Array]) -> None:
    inputs, labels = iris
    given, wrong = flipped(labels, 0.3)
    robust = quick(method="coteaching", noise_rate="auto").fit(inputs, given)
    assert vars(robust.method_)["rate"] == pytest.approx(wrong.mean(), abs=0.1)
    assert robust.score(inputs, labels) > 0.9


def test_by_default_small_data_are_seen_more_often() -> None:
    def epochs(rows: int, **parameters: Any) -> int:
        return RobustClassifier(**parameters)._training(rows).epochs

    assert epochs(10) == epochs(128) == 500  # of one step
    assert epochs(129) == 250
    assert epochs(129, batch_size=200) == 500
    assert epochs(60_000) == 50
    assert epochs(10, epochs=3) == 3


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"method": "bear"}, "unknown method 'bear': did you mean 'bare'?"),
    ({"method": 3}, "method is a name or a Method, got a int"),
    ({"method_params": {"kapa": 1}}, "did you mean 'kappa'?"),
    ({"method": BARE(), "method_params": {"kappa": 1}}, "method_params go with a method's name"),
    ({"module": "mpl"}, "unknown net 'mpl': did you mean 'mlp'?"),
    ({"module": 3}, "module is a net's name"),
    ({"module": nn.Linear(5, 3)}, "for inputs of shape (4,)"),
    ({"module": nn.Linear}, "cannot build net 'Linear'"),
    ({"epochs": 0}, "epochs: Input should be greater than 0, got 0"),
    ({"lr": -1.0}, "lr: Input should be greater than 0, got -1.0"),
    ({"device": "abacus"}, "device 'abacus' is not to be had here: use auto or cpu"),
    ({"noise_rate": 0.1}, "BARE takes no noise rate: leave noise_rate out"),
    ({"method": "coteaching"}, "CoTeaching needs the noise rate: pass noise_rate=0.2"),
    ({"method": "coteaching", "noise_rate": "much"}, 'noise_rate is a number or "auto"'),
    ({"method": "coteaching", "noise_rate": 1.5}, "a noise rate lies in [0, 1), got 1.5"),
    ({"method": "meta-ren"}, "MetaRen needs trusted rows: pass fit(X, y, trusted=mask)"),
    (
        {"method": "coteaching", "noise_rate": 0.1, "module": nn.Linear(4, 3)},
        "two networks that start differently: pass module as a function",
    ),
]


@pytest.mark.parametrize(("parameters", "message"), MISTAKES)
def test_mistakes_are_told_in_one_line(
    parameters: dict[str, Any], message: str, iris: tuple[Array, Array]
) -> None:
    with pytest.raises(LabelNoiseError) as told:
        quick(**parameters).fit(*iris)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("mask", [np.ones(149, dtype=bool), np.zeros(150, dtype=bool), [3, 4]])
def test_trusted_rows_are_a_mask(mask: Any, iris: tuple[Array, Array]) -> None:
    with pytest.raises(LabelNoiseError, match="a boolean for each of the 150 rows"):
        quick(method="meta-ren").fit(*iris, trusted=mask)
    with pytest.raises(LabelNoiseError, match="takes no trusted rows"):
        quick().fit(*iris, trusted=mask)


@pytest.mark.long
def test_the_example_runs() -> None:
    plain, robust = (float(line.split()[1]) for line in run(EXAMPLE).splitlines()[:2])
    assert robust > max(0.9, plain + 0.05)
