"""Tally against loops over steps and samples."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from labelnoise.batch import Step
from labelnoise.errors import LabelNoiseError
from labelnoise.record import tally as module
from labelnoise.record.tally import Tally

ROWS, CLASSES = 37, 4


def labels() -> Tensor:
    return torch.randint(CLASSES, (ROWS,), generator=torch.Generator().manual_seed(0))


def truth() -> Tensor:
    flip = torch.rand(ROWS, generator=torch.Generator().manual_seed(1)) < 0.4
    return (labels() + flip.long()) % CLASSES


def steps(epoch: int = 0, size: int = 8, *, binary: bool = True) -> list[Step]:
    """An epoch of a method that selects some samples, none in its third batch."""
    chance = torch.Generator().manual_seed(100 + epoch)
    made = []
    for number, index in enumerate(torch.split(torch.randperm(ROWS, generator=chance), size)):
        weight = torch.rand(len(index), generator=chance)
        weight = weight * (weight > 0.5)
        if binary:
            weight = weight.ceil()
        if number == 2:
            weight.zero_()
        bars = torch.rand(CLASSES, generator=chance)
        bars[number % CLASSES] = math.nan
        bars[3] = math.nan
        made.append(
            Step(
                index=index,
                weight=weight,
                loss=torch.rand((), generator=chance),
                probs=torch.rand(len(index), CLASSES, generator=chance).softmax(dim=1),
                notes={"thresholds": bars, "empty": ~(weight > 0).any()},
            )
        )
    return made


def slow_row(made: list[Step]) -> dict[str, Any]:
    loss = weight = 0.0
    selected, right, both, empty = 0, 0, 0, 0
    for step in made:
        loss += float(step.loss) * sum(step.weight.tolist())
        weight += sum(step.weight.tolist())
        empty += not any(w > 0 for w in step.weight.tolist())
        for row, w in zip(step.index.tolist(), step.weight.tolist(), strict=True):
            correct = int(labels()[row]) == int(truth()[row])
            selected += w > 0
            right += correct
            both += correct and w > 0
    return {
        "train_loss": loss / weight,
        "label_precision": both / selected,
        "label_recall": both / right,
        "selected_fraction": selected / ROWS,
        "empty_selections": empty,
    }


def filled(made: list[Step], **row: Any) -> tuple[Tally, dict[str, Any]]:
    tally = Tally(labels())
    for step in made:
        tally.add(step)
    return tally, tally.row(truth(), epoch=1, **row)


@pytest.mark.parametrize("binary", [True, False])
def test_a_row_equals_loops(binary: bool) -> None:
    made = steps(binary=binary)
    _, row = filled(made)
    expected = slow_row(made)
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert row["epoch"] == 1
    assert row["empty_selections"] == 1


def test_thresholds_ignore_batches_in_which_a_class_had_none() -> None:
    made = steps()
    _, row = filled(made)
    for c in range(CLASSES):
        bars = [float(step.notes["thresholds"][c]) for step in made]
        there = [bar for bar in bars if not math.isnan(bar)]
        found = {name: row["thresholds"][name][c] for name in ("mean", "min", "max")}
        if not there:
            assert found == {"mean": None, "min": None, "max": None}
        else:
            expected = {"mean": sum(there) / len(there), "min": min(there), "max": max(there)}
            assert found == pytest.approx(expected, rel=1e-6)
    assert row["thresholds"]["mean"][3] is None


def test_thresholds_by_batch_only_where_asked_for() -> None:
    made = steps()
    assert "thresholds_by_batch" not in filled(made)[1]
    traced = filled(made, trace=True)[1]["thresholds_by_batch"]
    assert len(traced) == len(made)
    for found, step in zip(traced, made, strict=True):
        for bar, expected in zip(found, step.notes["thresholds"].tolist(), strict=True):
            if math.isnan(expected):
                assert bar is None
            else:
                assert bar == pytest.approx(expected, rel=1e-6)


def test_without_truth_there_is_neither_precision_nor_recall() -> None:
    tally = Tally(labels())
    for step in steps():
        tally.add(step)
    row = tally.row(None, epoch=1)
    assert row["label_precision"] is None
    assert row["label_recall"] is None
    assert row["selected_fraction"] is not None


def test_without_notes_there_are_none_in_the_row() -> None:
    tally = Tally(labels())
    tally.add(Step(torch.arange(ROWS), torch.ones(ROWS), torch.tensor(0.5)))
    row = tally.row(None, epoch=1)
    assert "thresholds" not in row
    assert "empty_selections" not in row
    assert row["train_loss"] == 0.5


def test_nothing_selected_in_an_epoch_is_none_not_nan() -> None:
    tally = Tally(labels())
    tally.add(Step(torch.arange(ROWS), torch.zeros(ROWS), torch.tensor(0.0)))
    row = tally.row(truth(), epoch=1)
    assert row["train_loss"] is None
    assert row["label_precision"] is None
    assert row["label_recall"] == 0
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_the_record_of_the_samples_equals_loops_over_epochs() -> None:
    tally = Tally(labels())
    seen, chosen = [0] * ROWS, [0] * ROWS
    last, total, predicted = [0.0] * ROWS, [0.0] * ROWS, [-1] * ROWS
    for epoch in range(3):
        for step in steps(epoch):
            tally.add(step)
            assert step.probs is not None
            for i, row in enumerate(step.index.tolist()):
                seen[row] += 1
                chosen[row] += float(step.weight[i]) > 0
                last[row] = float(step.probs[i, labels()[row]])
                total[row] += last[row]
                predicted[row] = int(step.probs[i].argmax())
        tally.row(truth(), epoch=epoch + 1)
    samples = tally.samples
    assert samples["seen"].tolist() == seen
    assert samples["selected"].tolist() == chosen
    assert samples["probability_last"].tolist() == pytest.approx(last, rel=1e-6)
    assert samples["probability_sum"].tolist() == pytest.approx(total, rel=1e-6)
    assert samples["predicted"].tolist() == predicted


@pytest.mark.parametrize("buffer", [1, 50, 100])
def test_when_the_buffer_is_emptied_changes_nothing(
    buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = steps()
    whole, row = filled(made, trace=True)
    monkeypatch.setattr(module, "BUFFER", buffer)
    often, same = filled(made, trace=True)
    assert same == row
    for name, values in whole.samples.items():
        assert often.samples[name].equal(values)


def test_steps_with_probabilities_are_recorded_whatever_the_others_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A method may have none to report in some steps, a warm-up for one."""
    made = steps()
    made[1] = Step(made[1].index, made[1].weight, made[1].loss)
    found = []
    for buffer in (module.BUFFER, 1):
        monkeypatch.setattr(module, "BUFFER", buffer)
        found.append(filled(made)[0].samples["predicted"])
    assert found[0].equal(found[1])
    for step in made:
        expected = step.probs.argmax(dim=1) if step.probs is not None else torch.tensor(-1)
        assert (found[0][step.index] == expected).all()


def test_precision_and_recall_count_the_training_set_whatever_was_drawn() -> None:
    """A method may leave rows out before it draws batches, or draw some of them twice."""
    given = torch.zeros(10, dtype=torch.long)
    right = given.clone()
    right[8:] = 1  # eight labels of ten are right
    tally = Tally(given)
    for index in (torch.tensor([0, 1, 2, 9]), torch.tensor([2, 3])):
        tally.add(Step(index, torch.ones(len(index)), torch.tensor(1.0)))
    row = tally.row(right, epoch=1)
    assert row["selected_fraction"] == pytest.approx(5 / 10)
    assert row["label_precision"] == pytest.approx(4 / 5)
    assert row["label_recall"] == pytest.approx(4 / 8)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_loss_is_an_error_that_names_step_and_epoch(bad: float) -> None:
    tally = Tally(labels())
    for number, step in enumerate(steps()):
        loss = torch.tensor(bad) if number >= 2 else step.loss
        tally.add(Step(step.index, step.weight, loss, step.probs, step.notes))
    with pytest.raises(LabelNoiseError, match="NaN or infinite in step 3 of epoch 7"):
        tally.row(truth(), epoch=7)


def test_epochs_do_not_mix() -> None:
    tally = Tally(labels())
    for epoch in range(2):
        for step in steps(epoch):
            tally.add(step)
        row = tally.row(truth(), epoch=epoch + 1)
        expected = slow_row(steps(epoch))
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-6)


def test_a_restored_tally_goes_on() -> None:
    whole = Tally(labels())
    for step in steps(0):
        whole.add(step)
    whole.row(truth(), epoch=1)
    resumed = Tally(labels())
    resumed.load_state_dict({name: value.clone() for name, value in whole.state_dict().items()})
    rows = []
    for tally in (whole, resumed):
        for step in steps(1):
            tally.add(step)
        rows.append(tally.row(truth(), epoch=2))
    assert rows[0] == rows[1]
    assert all(values.equal(resumed.samples[name]) for name, values in whole.samples.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_loss_is_averaged_well_in_any_precision(dtype: torch.dtype) -> None:
    """float16 overflows at 65,504 samples, and bfloat16 cannot tell 257 from 256."""
    rows = 70_000
    tally = Tally(torch.zeros(rows, dtype=torch.long))
    index = torch.arange(rows)
    for part in (index[:257], index[257:]):
        loss = torch.tensor(1.0 if len(part) == 257 else 0.0, dtype=dtype)
        tally.add(Step(part, torch.ones(len(part), dtype=dtype), loss))
    assert tally.row(None, epoch=1)["train_loss"] == pytest.approx(257 / rows, rel=1e-6)


def test_a_row_is_plain_json_of_seven_digits() -> None:
    _, row = filled(steps(), trace=True)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["train_loss"] == float(f"{row['train_loss']:.7g}")
