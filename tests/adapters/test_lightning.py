"""Lightning: the same selection as our own loop, the record, its checkpoint."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from labelnoise import BARELoss, LabelNoiseError, Recorder

from .digits import BATCH, EPOCHS, ROWS, network, optimiser, order, own_loop, samples

lightning = pytest.importorskip("lightning.pytorch")
from labelnoise.adapters.lightning import LabelAudit  # noqa: E402

pytestmark = [  # what Lightning itself says, under a torch newer than it
    pytest.mark.filterwarnings(r"ignore:.isinstance\(treespec, LeafSpec\):FutureWarning"),
    pytest.mark.filterwarnings("ignore:The '(train|val)_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]


class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
    """As people write it; `returns` are the keys that the audit finds."""

    def __init__(self, returns: tuple[str, ...] = ("logits", "labels", "sample_ids")) -> None:
        super().__init__()
        self.network = network()
        self.criterion = BARELoss(samples=ROWS)
        self.returns = returns
        self.selected: list[list[bool]] = []
        self.seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        inputs, labels, rows = batch.values() if isinstance(batch, dict) else batch
        logits = self.network(inputs)
        loss = self.criterion(logits, labels)
        assert self.criterion.selected is not None
        self.selected.append(self.criterion.selected.tolist())
        self.seen.append((logits.detach(), labels, rows))
        found = {"logits": logits, "labels": labels, "sample_ids": rows}
        return {"loss": loss, **{key: found[key] for key in self.returns}}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return optimiser(self.network.parameters())


class Validated(Module):
    """With a validation that asks the loss, which must teach it nothing."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("validation_loss", self.criterion(self.network(batch[0]), batch[1]))


def trainer(folder: Path, *callbacks: Any, **options: Any) -> Any:
    settings = {
        "accelerator": "cpu",
        "max_epochs": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
    }
    return lightning.Trainer(**{**settings, **options}, callbacks=list(callbacks))


def loader(**options: Any) -> Any:
    inputs, labels, _ = samples()
    return DataLoader(
        TensorDataset(inputs[order()], labels[order()], order()), batch_size=BATCH, **options
    )


class Rows(Dataset[dict[str, Tensor]]):
    """Samples as dictionaries."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> dict[str, Any]:
        inputs, labels, _ = samples()
        return {"inputs": inputs[row], "labels": labels[row], "sample_ids": f"{row}.png"}


def test_the_selection_is_that_of_our_own_loop_and_the_record_that_of_a_recorder(
    tmp_path: Path,
) -> None:
    module, audit = Validated(), LabelAudit(tmp_path / "out" / "issues.csv")
    inputs, labels, truth = samples()
    held = DataLoader(TensorDataset(inputs, truth), batch_size=100)
    trainer(tmp_path, audit, num_sanity_val_steps=1).fit(module, loader(), held)
    assert module.selected == own_loop()[1]
    recorder = Recorder()
    for step in module.seen:
        recorder.update(*step)
    found, expected = audit.issues(), recorder.issues()
    assert found.ids == expected.ids
    assert np.array_equal(found.quality, expected.quality)
    wrong = (labels != truth).numpy()[[int(name) for name in found.ids]]
    assert (found.issue == wrong).mean() > 0.9
    kept, visits = np.zeros(ROWS), np.zeros(ROWS)
    for rows, keep in zip(*own_loop(), strict=True):
        visits[rows] += 1
        chosen = rows[torch.tensor(keep)]
        kept[chosen] += visits[chosen]
    shares = kept / (EPOCHS * (EPOCHS + 1) / 2)
    assert np.allclose(found.selected, shares[[int(name) for name in found.ids]])
    with (tmp_path / "out" / "issues.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["sample_id"] for line in lines] == [row["sample_id"] for row in found.rows()]


def test_every_step_is_recorded_where_gradients_are_added_up(tmp_path: Path) -> None:
    module, audit = Module(), LabelAudit()
    trainer(tmp_path, audit, accumulate_grad_batches=3).fit(module, loader())
    recorder = Recorder()
    for step in module.seen:
        recorder.update(*step)
    assert len(module.seen) == EPOCHS * ROWS // BATCH
    assert np.array_equal(audit.issues().quality, recorder.issues().quality)


def test_what_is_not_returned_is_taken_from_the_batch(tmp_path: Path) -> None:
    module, audit = (
        Module(returns=("logits",)),
        LabelAudit(classes=[f"digit {c}" for c in range(10)]),
    )
    trainer(tmp_path, audit).fit(module, DataLoader(Rows(), batch_size=BATCH))
    found = audit.issues()
    assert found.ids == tuple(f"{row}.png" for row in range(ROWS))
    assert next(found.rows())["given_label"].startswith("digit ")


def test_keys_may_have_other_names(tmp_path: Path) -> None:
    class Other(Module):
        def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            found = super().training_step(batch, batch_idx)
            return {"loss": found["loss"], "scores": found["logits"], "y": found["labels"],
                    "row": found["sample_ids"]}  # fmt: skip

    audit = LabelAudit(logits="scores", labels="y", sample_ids="row")
    trainer(tmp_path, audit).fit(Other(), loader())
    assert len(audit.issues().ids) == ROWS


@pytest.mark.parametrize("missing", ["logits", "labels", "sample_ids"])
def test_what_is_missing_is_an_error_that_shows_what_to_return(
    missing: str, tmp_path: Path
) -> None:
    returns = tuple(key for key in ("logits", "labels", "sample_ids") if key != missing)
    with pytest.raises(LabelNoiseError, match=f"no '{missing}': return it from training_step"):
        trainer(tmp_path, LabelAudit()).fit(Module(returns), loader())


def test_a_training_that_goes_on_from_a_checkpoint_goes_on_with_its_record(tmp_path: Path) -> None:
    """Two epochs of all batches at once, or one and one from the checkpoint."""
    whole = Module(), LabelAudit()
    trainer(tmp_path, whole[1], max_epochs=2).fit(whole[0], loader())
    first = trainer(tmp_path, LabelAudit())
    first.fit(Module(), loader())
    first.save_checkpoint(tmp_path / "half.ckpt")
    again = Module(), LabelAudit()
    trainer(tmp_path, again[1], max_epochs=2).fit(
        again[0], loader(), ckpt_path=tmp_path / "half.ckpt"
    )
    assert again[0].selected == whole[0].selected[len(whole[0].selected) // 2 :]
    one, other = whole[1].issues(), again[1].issues()
    assert one.ids == other.ids
    for name in ("quality", "predicted", "confidence", "selected"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_any_loss_is_audited(tmp_path: Path) -> None:
    class Plain(Module):
        def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            inputs, labels, rows = batch
            logits = self.network(inputs)
            loss = functional.cross_entropy(logits, labels)
            return {"loss": loss, "logits": logits, "labels": labels, "sample_ids": rows}

    audit = LabelAudit()
    trainer(tmp_path, audit).fit(Plain(), loader())
    _, labels, truth = samples()
    found = audit.issues()
    wrong = (labels != truth).numpy()[[int(name) for name in found.ids]]
    assert wrong[found.worst_first()[: ROWS // 5]].mean() > 0.75  # so many are wrong


def test_several_processes_are_refused(tmp_path: Path) -> None:
    two = trainer(tmp_path, devices=2, strategy="ddp")  # nothing is started yet
    with pytest.raises(LabelNoiseError, match="records one process, and 2 would train"):
        LabelAudit().setup(two, Module(), "fit")
    LabelAudit().setup(two, Module(), "validate")


def test_without_lightning_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, "labelnoise.adapters.lightning")
    with pytest.raises(LabelNoiseError, match=r"pip install 'labelnoise\[lightning\]'"):
        importlib.import_module("labelnoise.adapters.lightning")
