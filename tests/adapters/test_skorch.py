"""skorch: the same selection as our own loop, the record, pickles and checkpoints."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from labelnoise import BARELoss, LabelNoiseError, Recorder

from .digits import BATCH, EPOCHS, LR, ROWS, network, order, own_loop, samples

skorch = pytest.importorskip("skorch")
from sklearn.base import clone  # noqa: E402
from skorch.callbacks import Checkpoint, LoadInitState  # noqa: E402
from skorch.dataset import Dataset, ValidSplit  # noqa: E402

from labelnoise.adapters.skorch import LabelAudit, NumberedLoader  # noqa: E402


class Selecting(BARELoss):
    """Keeps what it selected in training."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        loss = super().forward(logits, labels)
        if self.training:
            assert self.selected is not None
            self.__dict__.setdefault("kept", []).append(self.selected.tolist())
            self.__dict__.setdefault("seen", []).append((logits.detach(), labels))
        return loss


def net(*callbacks: Any, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "module": network(),
        "criterion": Selecting(samples=ROWS),
        "optimizer": torch.optim.SGD,
        "optimizer__momentum": 0.9,
        "optimizer__fused": True,
        "lr": LR,
        "batch_size": BATCH,
        "max_epochs": 1,
        "train_split": None,
        "iterator_train": NumberedLoader,
        "predict_nonlinearity": nn.Softmax(dim=-1),
        "verbose": 0,
        "callbacks": list(callbacks),
    }
    return skorch.NeuralNetClassifier(**{**settings, **options})


def in_order() -> tuple[Any, Any]:
    inputs, labels, _ = samples()
    return inputs[order()].numpy(), labels[order()].numpy()


def found_of(criterion: Any, rows: list[list[int]]) -> Any:
    recorder = Recorder()
    for (logits, labels), ids in zip(criterion.seen, rows, strict=True):
        recorder.update(logits, labels, ids)
    return recorder.issues()


def test_the_selection_is_that_of_our_own_loop_and_the_record_that_of_a_recorder() -> None:
    audit = LabelAudit()
    trained = net(audit).fit(*in_order())
    assert trained.criterion_.kept == own_loop()[1]
    rows = torch.split(torch.arange(EPOCHS * ROWS), BATCH)  # in what fit was given
    expected = found_of(trained.criterion_, [each.tolist() for each in rows])
    found = audit.issues()
    assert found.ids == expected.ids
    assert np.array_equal(found.quality, expected.quality)
    probs = trained.predict_proba(in_order()[0][:5])
    assert np.allclose(probs.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_are_those_of_fit_under_shuffling_a_split_and_workers(workers: int) -> None:
    """Every sample's own row is in its inputs."""
    inputs, labels, _ = samples()
    marked = torch.cat([inputs[:, 1:], torch.arange(ROWS).unsqueeze(1) / ROWS], dim=1).numpy()
    seen: list[tuple[int, int]] = []

    class Looking(LabelAudit):
        def on_batch_begin(
            self, net: Any, batch: Any = None, training: Any = None, **_: Any
        ) -> None:
            if training:
                marks = (batch[0][:, -1] * ROWS).round().int().tolist()
                seen.extend(zip(marks, batch.rows, strict=True))

    audit = Looking()
    net(
        audit,
        train_split=ValidSplit(4),
        max_epochs=2,
        iterator_train__shuffle=True,
        iterator_train__num_workers=workers,
    ).fit(marked, labels.numpy())
    assert len(seen) == 2 * ROWS * 3 // 4
    assert all(own == row for own, row in seen)
    found = audit.issues()
    assert len(found.ids) == ROWS * 3 // 4
    by_name = dict(zip(found.ids, found.given.tolist(), strict=True))
    assert by_name == {name: int(labels[int(name)]) for name in found.ids}


def test_wrong_labels_are_found_with_the_usual_criterion_too() -> None:
    """NLLLoss, whose module gives probabilities; CrossEntropyLoss, whose module gives logits."""
    inputs, labels, truth = (each.numpy() for each in samples())
    for module, criterion in (
        (nn.Sequential(network(), nn.Softmax(dim=-1)), nn.NLLLoss),
        (network(), nn.CrossEntropyLoss),
    ):
        audit = LabelAudit(classes=[f"digit {c}" for c in range(10)])
        trained = net(
            audit,
            module=module,
            criterion=criterion,
            max_epochs=25,
            iterator_train__shuffle=True,
        )
        torch.manual_seed(0)
        trained.fit(inputs, labels)
        found = audit.issues()
        rows = [int(name) for name in found.ids]
        worst = found.worst_first()[: ROWS // 5]  # so many are wrong
        assert (labels != truth)[rows][worst].mean() > 0.75
        assert next(found.rows())["given_label"].startswith("digit ")


def test_fit_begins_anew_and_partial_fit_goes_on() -> None:
    inputs, labels, _ = (each.numpy() for each in samples())
    audit = LabelAudit()
    trained = net(audit)
    for count, call in ((1, "fit"), (2, "partial_fit"), (1, "fit")):
        getattr(trained, call)(inputs, labels)
        assert len(audit.issues().ids) == ROWS  # and nothing waits to be recorded
        visits = audit.recorder_.state_dict()["samples"]["seen"]
        assert visits[:ROWS].tolist() == [count] * ROWS


def test_a_net_that_was_pickled_goes_on() -> None:
    inputs, labels, _ = (each.numpy() for each in samples())
    whole = net(LabelAudit(), max_epochs=4).fit(inputs, labels)
    half = net(LabelAudit(), max_epochs=2).fit(inputs, labels)
    again = pickle.loads(pickle.dumps(half))  # noqa: S301
    again.partial_fit(inputs, labels)
    assert again.criterion_.kept == whole.criterion_.kept
    one, other = (dict(each.callbacks_)["LabelAudit"].issues() for each in (whole, again))
    assert np.array_equal(one.quality, other.quality)
    assert np.array_equal(one.selected, other.selected)


def test_the_evidence_is_in_a_checkpoint(tmp_path: Path) -> None:
    inputs, labels, _ = (each.numpy() for each in samples())
    whole = net(max_epochs=4).fit(inputs, labels)

    def point() -> Checkpoint:
        return Checkpoint(monitor=None, dirname=str(tmp_path), f_criterion="criterion.pt")

    net(point(), max_epochs=2).fit(inputs, labels)
    again = net(LoadInitState(point()), max_epochs=2)
    again.fit(inputs, labels)
    assert again.criterion_.kept == whole.criterion_.kept[-len(again.criterion_.kept) :]


def test_data_sets_and_clones() -> None:
    inputs, labels, _ = samples()
    for data in (TensorDataset(inputs, labels), Dataset(inputs.numpy(), labels.numpy())):
        audit = LabelAudit()
        trained = clone(net(audit))
        trained.fit(data, y=None)
        found = dict(trained.callbacks_)["LabelAudit"].issues()
        assert np.array_equal(found.given, labels.numpy())


def test_what_is_missing_is_an_error_that_says_what_to_pass() -> None:
    inputs, labels, _ = (each.numpy() for each in samples())
    with pytest.raises(LabelNoiseError, match="iterator_train=NumberedLoader"):
        net(LabelAudit(), iterator_train=torch.utils.data.DataLoader).fit(inputs, labels)
    with pytest.raises(LabelNoiseError, match="call fit first"):
        LabelAudit().issues()


def test_without_skorch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skorch", None)
    monkeypatch.delitem(sys.modules, "labelnoise.adapters.skorch")
    with pytest.raises(LabelNoiseError, match=r"pip install 'labelnoise\[skorch\]'"):
        importlib.import_module("labelnoise.adapters.skorch")
