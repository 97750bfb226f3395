"""What every method must do; a new one joins by its line in the registry."""

from __future__ import annotations

import copy
import io
import json
import math
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from itertools import count, islice
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from labelnoise import Batch, LabelNoiseError, Learner, Method, Problem, Step, fit
from labelnoise.data.scale import Scaling
from labelnoise.data.train import Augment, Train
from labelnoise.engine import Held
from labelnoise.learner import Recipe
from labelnoise.methods import METHODS
from labelnoise.record.run import Row
from labelnoise.record.shared import Shared
from labelnoise.record.tally import Tally
from labelnoise.seeds import stream

FEATURES, CLASSES, ROWS, NOISE = 8, 4, 256, 0.3
DTYPES = (torch.float32, torch.float64, torch.bfloat16)

every_method = pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS.keys())


# --- a problem that is small, noisy and can be solved ---------------------------------------------


def blobs(rows: int, name: str) -> tuple[Tensor, Tensor]:
    """Classes around the corners of a simplex, an eighth of them overlapping."""
    chance = stream(0, "blobs", name)
    truth = torch.arange(rows) % CLASSES
    noise = torch.randn(rows, FEATURES, generator=chance)
    return 3 * torch.eye(CLASSES, FEATURES)[truth] + noise, truth


@dataclass
class Toy:
    """A problem with its data; the seed is that of initialisation and order."""

    seed: int = 0
    dtype: torch.dtype = torch.float32
    batch_size: int = 32
    lr: float = 2e-2
    augment: Augment | None = None
    schedule: str = "cosine"
    optimiser: str = "adam"
    inputs: Tensor = field(init=False)
    truth: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.inputs, self.truth = blobs(ROWS, "train")
        chance = stream(0, "flips")
        wrong = torch.rand(ROWS, generator=chance) < NOISE
        shift = torch.randint(1, CLASSES, (ROWS,), generator=chance)
        self.labels = torch.where(wrong, (self.truth + shift) % CLASSES, self.truth)

    @property
    def problem(self) -> Problem:
        made = count()

        def new_learner() -> Learner:
            with torch.random.fork_rng():
                torch.manual_seed(1_000 * self.seed + next(made))
                network = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))
            recipe = Recipe(self.optimiser, self.lr, schedule=self.schedule, epochs=6)
            return Learner(network.to(self.dtype), recipe)

        return Problem(
            labels=self.labels,
            num_classes=CLASSES,
            new_learner=new_learner,
            generator=stream(self.seed, "method"),
            noise_rate=NOISE,
            trusted=self._trusted(),
        )

    @property
    def train(self) -> Train:
        scaling = Scaling(torch.tensor(0.0).to(self.dtype), torch.tensor(1.0).to(self.dtype))
        return Train(self.inputs, self.labels, scaling, self.batch_size, self.seed, self.augment)

    def fit(
        self, method: Method, epochs: int = 6, journal: Kept | None = None
    ) -> tuple[list[Row], Tally]:
        return fit(
            method,
            self.problem,
            self.train,
            epochs=epochs,
            validation=Held(self.inputs[::5], self.labels[::5]),
            test=Held(*blobs(200, "test")),
            truth=self.truth,
            journal=cast(Shared, journal),
        )

    def batch(self, rows: Tensor, labels: Tensor | None = None, views: int = 1) -> Batch:
        given = self.labels[rows] if labels is None else labels
        return Batch((self.inputs[rows].to(self.dtype),) * views, given, rows, time=0.0)

    def _trusted(self) -> Train:
        inputs, labels = blobs(32, "trusted")
        return replace(self.train, inputs=inputs, labels=labels, seed=0, augment=None)


class Kept:
    """A journal in memory: what a checkpoint can hold, and nothing else, survives."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.stored = b""

    def restore(self, method: Method, tally: Tally) -> list[Row]:
        if self.stored:
            state = torch.load(io.BytesIO(self.stored), weights_only=True)
            method.load_state_dict(state["method"])
            tally.load_state_dict(state["tally"])
        return list(self.rows)

    def commit(self, row: Row, method: Method, tally: Tally, skipped: dict[str, str]) -> None:
        state = io.BytesIO()
        torch.save({"method": method.state_dict(), "tally": tally.state_dict()}, state)
        self.rows.append(json.loads(json.dumps(row, allow_nan=False)))
        self.stored = state.getvalue()


def flat(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return [leaf for value in state.values() for leaf in flat(value)]
    if isinstance(state, list | tuple):
        return [leaf for value in state for leaf in flat(value)]
    return [state]


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal to the bit."""
    pairs = zip(flat(one), flat(other), strict=True)
    return all(a.equal(b) if isinstance(a, Tensor) else a == b for a, b in pairs)


def without_seconds(rows: list[Row]) -> list[Row]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def parameters_are_finite(method: Method) -> bool:
    parts = [parameter for one in method.learners() for parameter in one.parameters]
    return len(parts) > 0 and all(bool(part.isfinite().all()) for part in parts)


# --- learning -------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_beats_chance_on_noisy_labels_in_any_precision(
    kind: type[Method], dtype: torch.dtype
) -> None:
    method = kind()
    rows, tally = Toy(dtype=dtype).fit(method)
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[-1]["test_accuracy"] > 0.75  # chance is 0.25
    assert all(math.isfinite(row["validation_loss"]) for row in rows)
    assert tally.samples["seen"].tolist() == [6] * ROWS
    networks = [p.dtype for learner in method.learners() for p in learner.parameters]
    assert set(networks) == {dtype}


@every_method
def test_the_same_seed_gives_the_same_result_to_the_bit(kind: type[Method]) -> None:
    results: list[tuple[Any, ...]] = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(results))  # the global generator must not matter
        method = kind()
        rows, tally = Toy(seed=seed).fit(method, epochs=3)
        results.append((method.state_dict(), without_seconds(rows), tally.state_dict()))
    assert same(results[0], results[1])
    assert not same(results[0][0], results[2][0])


@every_method
@pytest.mark.parametrize("schedule", ["plateau", "cosine"])
def test_a_run_that_stopped_between_epochs_ends_as_one_that_did_not(
    kind: type[Method], schedule: str
) -> None:
    whole, halves = kind(), Kept()
    rows, tally = Toy(schedule=schedule).fit(whole, epochs=4)
    Toy(schedule=schedule).fit(kind(), epochs=2, journal=halves)
    resumed = kind()
    more, resumed_tally = Toy(schedule=schedule).fit(resumed, epochs=4, journal=halves)
    assert same(whole.state_dict(), resumed.state_dict())
    assert without_seconds(rows) == without_seconds(more) == without_seconds(halves.rows)
    assert same(tally.state_dict(), resumed_tally.state_dict())


@every_method
def test_a_finished_run_is_not_trained_again(kind: type[Method]) -> None:
    journal = Kept()
    Toy().fit(kind(), epochs=2, journal=journal)
    stored = journal.stored
    rows, _ = Toy().fit(kind(), epochs=2, journal=journal)
    assert len(rows) == 2
    assert journal.stored == stored


@every_method
def test_its_state_in_the_middle_of_an_epoch_is_all_it_needs(kind: type[Method]) -> None:
    toy = Toy()
    whole, resumed = kind(), kind()
    whole.setup(toy.problem)
    batches = list(toy.train.batches(0, whole.views))
    for batch in batches[:4]:
        whole.step(batch)
    stored = io.BytesIO()
    torch.save(whole.state_dict(), stored)
    stored.seek(0)
    resumed.setup(Toy(seed=9).problem)
    resumed.load_state_dict(torch.load(stored, weights_only=True))
    for batch in batches[4:]:
        one, other = whole.step(batch), resumed.step(batch)
        assert one.loss.equal(other.loss)
        assert one.weight.equal(other.weight)
    assert same(whole.state_dict(), resumed.state_dict())


# --- batches that nobody wishes for ---------------------------------------------------------------


def hard_batches(toy: Toy, views: int) -> dict[str, Batch]:
    some = torch.arange(32)
    wrong = (toy.truth[some] + 1) % CLASSES
    one_class = (toy.labels == 2).nonzero().squeeze(1)[:20]
    return {
        "all wrong": toy.batch(some, wrong, views),
        "a single class": toy.batch(one_class, views=views),
        "no sample": toy.batch(torch.arange(0), views=views),  # of one process: none can be read
        "one sample": toy.batch(torch.tensor([7]), views=views),
        "two samples": toy.batch(torch.tensor([7, 8]), views=views),
        "the same sample many times": toy.batch(torch.tensor([3]).repeat(16), views=views),
    }


@every_method
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", hard_batches(Toy(), 1))
def test_it_survives_a_hard_batch_before_and_after_training(
    kind: type[Method], dtype: torch.dtype, which: str
) -> None:
    toy = Toy(dtype=dtype)
    method = kind()
    method.setup(toy.problem)
    for epoch in range(2):
        hard = hard_batches(toy, method.views)[which]
        step = method.step(hard)
        assert step.loss.isfinite()
        assert step.weight.isfinite().all()
        assert (step.weight >= 0).all()
        assert parameters_are_finite(method)
        for normal in islice(toy.train.batches(epoch, method.views), 4):
            assert method.step(normal).loss.isfinite()
    assert parameters_are_finite(method)


@every_method
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_inputs_are_an_error_that_names_step_and_epoch(kind: type[Method], bad: float) -> None:
    toy = Toy()
    toy.inputs[100, 2] = bad
    orders = [batch.index.tolist() for batch in toy.train.batches(0)]
    step = next(number for number, rows in enumerate(orders, 1) if 100 in rows)
    with pytest.raises(LabelNoiseError, match=rf"step {step} of epoch 1\b"):
        toy.fit(kind(), epochs=2)


@every_method
def test_nan_in_a_later_epoch_is_named_too(kind: type[Method]) -> None:
    calls = count(1)
    steps, views = ROWS // 32, kind.views

    def breaking(inputs: Tensor, generator: torch.Generator) -> Tensor:
        broken = next(calls) == (steps + 4) * views + 1  # the fifth batch of the second epoch
        return inputs * (math.nan if broken else 1.0)

    with pytest.raises(LabelNoiseError, match=r"step 5 of epoch 2\b"):
        Toy(augment=breaking).fit(kind(), epochs=3)


@every_method
def test_weights_that_break_in_the_last_step_of_an_epoch_are_named_too(kind: type[Method]) -> None:
    """Its loss was still finite (unless it looks ahead); the validation loss is what shows it."""
    toy = Toy(batch_size=ROWS, lr=3e38, optimiser="sgd", schedule="constant")
    with pytest.raises(LabelNoiseError, match=r"(validation loss|step 1\b).* epoch 1\b"):
        toy.fit(kind(), epochs=2)


# --- what it reports ------------------------------------------------------------------------------


def tensors(step: Step) -> list[Tensor]:
    found = [step.index, step.weight, step.loss, *step.notes.values()]
    return found if step.probs is None else [*found, step.probs]


@every_method
def test_its_steps_are_aligned_with_the_batch_and_carry_no_graph(kind: type[Method]) -> None:
    toy, method = Toy(), kind()
    method.setup(toy.problem)
    for batch in toy.train.batches(0, method.views):
        before = copy.deepcopy(batch)
        step = method.step(batch)
        assert step.index.equal(batch.index)
        assert step.weight.shape == batch.labels.shape
        assert step.loss.ndim == 0
        assert not any(tensor.requires_grad for tensor in tensors(step))
        if step.probs is not None:
            assert step.probs.shape == (len(batch.labels), CLASSES)
            assert torch.allclose(step.probs.sum(dim=1), torch.ones(len(batch.labels)), atol=1e-5)
        assert batch.labels.equal(before.labels)  # the data are not the method's to change
        assert all(a.equal(b) for a, b in zip(batch.views, before.views, strict=True))


@every_method
def test_its_predictions_are_probabilities_and_change_nothing(kind: type[Method]) -> None:
    toy, method = Toy(), kind()
    toy.fit(method, epochs=1)
    before = copy.deepcopy(method.state_dict())
    probs = method.predict(toy.inputs)
    assert probs.shape == (ROWS, CLASSES)
    assert not probs.requires_grad
    assert torch.allclose(probs.sum(dim=1), torch.ones(ROWS), atol=1e-5)
    assert method.predict(toy.inputs[5:6])[0].tolist() == pytest.approx(probs[5].tolist(), abs=1e-6)
    assert same(before, method.state_dict())


# --- what it is -----------------------------------------------------------------------------------


@every_method
def test_it_is_a_dataclass_of_plain_values_that_round_trips(kind: type[Method]) -> None:
    assert is_dataclass(kind)
    method = kind()
    settings = asdict(method)
    assert json.loads(json.dumps(settings)) == settings
    again = kind(**settings)
    assert again == method
    assert again is not method
    shown = repr(method)
    assert shown.startswith(kind.__name__ + "(")
    for each in fields(method):
        assert f"{each.name}={getattr(method, each.name)!r}" in shown


@every_method
def test_training_leaves_its_settings_alone(kind: type[Method]) -> None:
    method = kind()
    Toy().fit(method, epochs=1)
    assert method == kind()
    assert repr(method) == repr(kind())


@every_method
def test_it_says_what_it_is_in_one_sentence(kind: type[Method]) -> None:
    first = (kind.__doc__ or "").strip().splitlines()[0]
    assert first.endswith(".")
    assert not first.startswith(f"{kind.__name__}(")  # what a dataclass writes when nobody does


# --- the engine under all of them -----------------------------------------------------------------


@pytest.mark.parametrize("flushing", [False, True])
def test_the_engine_leaves_the_treatment_of_tiny_numbers_as_it_was(flushing: bool) -> None:
    def flushes() -> bool:
        return bool(torch.tensor([2e-38]) * torch.tensor([1e-2]) == 0)

    if not torch.set_flush_denormal(flushing):
        pytest.skip("this processor cannot flush denormals")
    try:
        Toy().fit(METHODS["cce"](), epochs=1)
        assert flushes() is flushing
        broken = Toy()
        broken.inputs[0] = math.nan
        with pytest.raises(LabelNoiseError):
            broken.fit(METHODS["cce"](), epochs=1)
        assert flushes() is flushing
    finally:
        torch.set_flush_denormal(False)


@every_method
def test_the_schedule_moves_on_after_every_epoch(kind: type[Method]) -> None:
    method = kind()
    rows, _ = Toy(lr=0.02).fit(method)
    expected = [0.01 * (1 + math.cos(math.pi * epoch / 6)) for epoch in range(6)]
    assert [row["lr"] for row in rows] == pytest.approx(expected)
    assert [learner.lr for learner in method.learners()] == pytest.approx(
        [0.0] * len(method.learners()), abs=1e-12
    )


def test_rows_carry_what_an_epoch_is_judged_by() -> None:
    rows, _ = Toy().fit(METHODS["cce"](), epochs=1)
    assert set(rows[0]) >= {
        "epoch",
        "train_loss",
        "test_accuracy",
        "test_accuracy_balanced",
        "validation_loss",
        "validation_accuracy",
        "label_precision",
        "label_recall",
        "selected_fraction",
        "lr",
        "train_seconds",
    }
    assert rows[0]["selected_fraction"] == 1
    assert rows[0]["label_recall"] == 1
    toy = Toy()
    right = (toy.labels == toy.truth).double().mean()
    assert rows[0]["label_precision"] == pytest.approx(float(right), rel=1e-6)
