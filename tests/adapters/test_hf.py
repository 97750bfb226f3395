"""Hugging Face: real Trainer runs against our own loop and against the joined batch."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.func import functional_call

from labelnoise import BARELoss, LabelNoiseError, Recorder

from .digits import BATCH, ROWS, network, optimiser, order, own_loop, samples

transformers = pytest.importorskip("transformers")
from labelnoise.adapters.hf import IdCollator, LabelAudit  # noqa: E402


class Model(nn.Module):
    """Takes `inputs` and nothing else, as a strict model does."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        return {"logits": self.network(inputs)}


class Selecting(BARELoss):
    """Keeps every micro-batch that it was asked about in training."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = super().forward(logits, labels)
        assert self.selected is not None
        kept = (logits.detach(), labels, self.weight, self.selected.tolist())
        self.__dict__.setdefault("calls", []).append(kept)
        return losses


class Gradients(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
    """Weights before every step, gradients after all micro-batches."""

    def __init__(self) -> None:
        self.before: list[dict[str, Tensor]] = []
        self.after: list[dict[str, Tensor]] = []

    def on_step_begin(self, *_: Any, model: nn.Module, **rest: Any) -> None:
        self.before.append({n: p.detach().clone() for n, p in model.named_parameters()})

    def on_pre_optimizer_step(self, *_: Any, model: nn.Module, **rest: Any) -> None:
        found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        self.after.append({name: grad.clone() for name, grad in found.items()})


def rows(index: Tensor | None = None, name: str = "{}") -> list[dict[str, Any]]:
    inputs, labels, _ = samples()
    index = torch.arange(ROWS) if index is None else index
    numbers = index.tolist()
    return [
        {
            "inputs": inputs[row],
            "label": int(labels[row]),
            "idx": row if name == "{}" else name.format(row),
        }
        for row in numbers
    ]


def trainer(
    folder: Path, audit: LabelAudit, data: list[dict[str, Any]], *more: Any, **options: Any
) -> Any:
    model = options.pop("model", None) or Model()
    collator = options.pop("data_collator", None) or IdCollator()
    evaluated = options.pop("eval_dataset", None)
    settings = {
        "output_dir": str(folder),
        "use_cpu": True,
        "per_device_train_batch_size": BATCH,
        "num_train_epochs": 1,
        "max_grad_norm": 0,
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_strategy": "no",
        "dataloader_pin_memory": False,
    }
    steps = optimiser(model.parameters())
    constant = torch.optim.lr_scheduler.LambdaLR(steps, lambda step: 1.0)
    return transformers.Trainer(
        model,
        transformers.TrainingArguments(**{**settings, **options}),
        train_dataset=data,
        eval_dataset=evaluated,
        data_collator=collator,
        compute_loss_func=audit,
        callbacks=[audit, *more],
        optimizers=(steps, constant),
    )


def new_audit(threshold: str = "evidence", samples: int = ROWS, **options: Any) -> LabelAudit:
    return LabelAudit(Selecting(None, threshold, "none", samples), **options)


def calls(audit: LabelAudit) -> list[Any]:
    found: list[Any] = audit.criterion.__dict__["calls"]
    return found


def test_the_selection_is_that_of_our_own_loop_and_the_record_that_of_a_recorder(
    tmp_path: Path,
) -> None:
    audit = new_audit()
    trainer(tmp_path, audit, rows(order())).train()
    assert [call[3] for call in calls(audit)] == own_loop()[1]
    recorder = Recorder()
    for call, index in zip(calls(audit), own_loop()[0], strict=True):
        recorder.update(call[0], call[1], index)
    found, expected = audit.issues(), recorder.issues()
    assert found.ids == expected.ids
    assert np.array_equal(found.quality, expected.quality)
    _, labels, truth = samples()
    wrong = (labels != truth).numpy()[[int(name) for name in found.ids]]
    assert (found.issue == wrong).mean() > 0.9


@pytest.mark.parametrize("threshold", ["evidence", "batch"])
@pytest.mark.parametrize(
    ("size", "together", "clip"), [(10, 1, 0), (10, 4, 0.1), (10, 5, 0), (7, 4, 0), (7, 4, 0.1)]
)
def test_added_up_gradients_are_those_of_the_joined_batch(
    threshold: str, size: int, together: int, clip: float, tmp_path: Path
) -> None:
    """Also in a last group of fewer or smaller micro-batches, and before they are clipped."""
    audit, gradients = new_audit(threshold, samples=0), Gradients()
    run = trainer(
        tmp_path,
        audit,
        rows(),
        gradients,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=together,
        max_grad_norm=clip,
    )
    run.train()
    inputs, labels, _ = samples()
    parts = torch.split(torch.arange(ROWS), size)
    groups = [range(n, min(n + together, len(parts))) for n in range(0, len(parts), together)]
    assert len(gradients.after) == len(groups)
    uneven = 0
    for step, (before, after) in enumerate(zip(gradients.before, gradients.after, strict=True)):
        index = torch.cat([parts[n] for n in groups[step]])
        weights = [calls(audit)[n][2] for n in groups[step]]
        uneven += len({round(float(each.mean()), 3) for each in weights}) > 1
        weight = torch.cat(weights)
        weighed = {name: value.clone().requires_grad_() for name, value in before.items()}
        logits = functional_call(run.model, weighed, (inputs[index],))["logits"]
        losses = functional.cross_entropy(logits, labels[index], reduction="none")
        joined = (losses * weight).sum() / weight.sum()
        joined.backward()  # type: ignore[no-untyped-call]
        expected = {name: value.grad for name, value in weighed.items()}
        if clip:
            torch.nn.utils.clip_grad_norm_(list(weighed.values()), clip)
        for name, grad in after.items():
            assert expected[name] is not None
            assert torch.allclose(grad, expected[name], rtol=1e-4, atol=1e-6), (step, name)  # type: ignore[arg-type]
    assert uneven > len(groups) / 2 or together == 1  # or there would be nothing to get wrong


def test_an_evaluation_is_the_mean_cross_entropy_and_teaches_nothing(tmp_path: Path) -> None:
    plain, evaluated = new_audit(), new_audit()
    trainer(tmp_path, plain, rows(), num_train_epochs=4).train()
    held = [{key: row[key] for key in ("inputs", "label")} for row in rows()[:50]]  # no ids
    run = trainer(
        tmp_path, evaluated, rows(), num_train_epochs=4, eval_dataset=held, eval_strategy="epoch",
        per_device_eval_batch_size=16, gradient_accumulation_steps=1,
    )  # fmt: skip
    before = run.evaluate()["eval_loss"]
    inputs, labels, _ = samples()
    with torch.no_grad():
        expected = functional.cross_entropy(network()(inputs[:50]), labels[:50])
    assert before == pytest.approx(float(expected), rel=1e-5)
    run.train()
    assert [call[3] for call in calls(evaluated)] == [call[3] for call in calls(plain)]
    assert np.array_equal(plain.issues().quality, evaluated.issues().quality)
    assert evaluated.issues().ids == tuple(map(str, range(ROWS)))
    predicted = run.predict(rows())  # with ids, which nothing is done with
    assert predicted.predictions.shape == (ROWS, 10)


def test_a_training_that_goes_on_from_a_checkpoint_goes_on_with_its_record(tmp_path: Path) -> None:
    whole = new_audit()
    trainer(tmp_path / "whole", whole, rows(), num_train_epochs=4).train()
    half, again = new_audit(), new_audit()
    options = {"num_train_epochs": 4, "save_strategy": "epoch"}
    stop = Stop(2 * ROWS // BATCH)
    trainer(tmp_path / "parts", half, rows(), stop, **options).train()
    trainer(tmp_path / "parts", again, rows(), **options).train(resume_from_checkpoint=True)
    seen = [call[3] for call in calls(whole)]
    assert [call[3] for call in calls(half)] + [call[3] for call in calls(again)] == seen
    one, other = whole.issues(), again.issues()
    for name in ("quality", "predicted", "confidence", "selected"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


class Stop(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
    """Ends a training early, as a machine does that is needed elsewhere."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        control.should_training_stop = state.global_step == self.step
        control.should_save = control.should_save or control.should_training_stop
        return control


def test_a_checkpoint_without_a_record_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    options = {"num_train_epochs": 2, "save_strategy": "epoch"}
    first = new_audit()
    trainer(tmp_path, first, rows(), **options).train()
    step = ROWS // BATCH
    stored = tmp_path / f"checkpoint-{step}" / "labelnoise.pt"
    stored.rename(tmp_path / "elsewhere.pt")
    audit = new_audit()
    run = trainer(tmp_path, audit, rows(), **options)
    with pytest.raises(LabelNoiseError, match=r"call audit\.load_state_dict"):
        run.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
    audit.load_state_dict(torch.load(tmp_path / "elsewhere.pt", weights_only=True))
    run.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
    assert np.array_equal(audit.issues().quality, first.issues().quality)


def test_names_workers_and_other_losses(tmp_path: Path) -> None:
    audit = LabelAudit(
        nn.CrossEntropyLoss(reduction="none"), classes=[f"digit {c}" for c in range(10)]
    )
    run = trainer(
        tmp_path, audit, rows(name="{}.png"), num_train_epochs=3, train_sampling_strategy="random",
        dataloader_num_workers=1, gradient_accumulation_steps=2,
    )  # fmt: skip
    run.train()
    found = audit.issues()
    given = dict(zip(found.ids, found.given.tolist(), strict=True))
    assert given == {f"{row}.png": label for row, label in enumerate(samples()[1].tolist())}
    assert next(found.rows())["given_label"].startswith("digit ")


def test_a_model_that_was_audited_may_be_audited_again(tmp_path: Path) -> None:
    """As in a notebook whose cell is run twice; whoever trains last gets the ids."""
    model, first, second = Model(), new_audit(), new_audit()
    before = trainer(tmp_path, first, rows(), model=model)
    before.train()
    after = trainer(tmp_path, second, rows(), model=model)
    after.train()
    assert second.issues().ids == first.issues().ids == tuple(map(str, range(ROWS)))
    assert after.predict(rows()).predictions.shape == (ROWS, 10)
    steps = len(calls(first))
    before.train()
    assert len(calls(first)) == 2 * steps
    assert len(model._forward_pre_hooks) == 1


def test_without_a_record_no_ids_are_needed(tmp_path: Path) -> None:
    audit = new_audit(record=False)
    run = trainer(
        tmp_path, audit, rows(order()), remove_unused_columns=True,
        data_collator=transformers.default_data_collator,
    )  # fmt: skip
    run.train()
    assert [call[3] for call in calls(audit)] == own_loop()[1]
    with pytest.raises(LabelNoiseError, match="nothing was recorded"):
        audit.issues()


def test_what_is_missing_is_an_error_that_says_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"remove_unused_columns=False"):
        trainer(tmp_path, new_audit(), rows(), remove_unused_columns=True).train()
    audit = new_audit()
    run = trainer(tmp_path, new_audit(), rows())
    run.compute_loss_func = audit
    with pytest.raises(LabelNoiseError, match=r"callbacks=\[audit\]"):
        run.train()
    with pytest.raises(LabelNoiseError, match="reduction='none'"):
        LabelAudit(BARELoss())
    with pytest.raises(LabelNoiseError, match="a batch has no labels"):
        audit({"logits": torch.zeros(2, 3)}, None)


def test_the_collator_keeps_what_it_wraps_and_can_be_sent_to_a_worker() -> None:
    collator = pickle.loads(pickle.dumps(IdCollator(column="row")))  # noqa: S301
    batch = collator([{"x": 1.0, "label": 3, "row": 7}, {"x": 2.0, "label": 4, "row": 2}])
    assert batch["row"].tolist() == [7, 2]
    assert batch["labels"].tolist() == [3, 4]
    assert batch["x"].tolist() == [1.0, 2.0]
    assert "row" not in collator([{"x": 1.0, "label": 3}])
    assert collator([{"x": 1.0, "row": "a"}])["row"] == ["a"]


def test_without_transformers_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "labelnoise.adapters.hf")
    with pytest.raises(LabelNoiseError, match=r"pip install 'labelnoise\[hf\]'"):
        importlib.import_module("labelnoise.adapters.hf")
