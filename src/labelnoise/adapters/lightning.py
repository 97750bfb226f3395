"""LabelAudit for Lightning: which labels are wrong, from the training that runs anyway.

`BARELoss` needs no adapter: it is a criterion for `training_step`, and as a part of the module its
evidence is in every checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labelnoise.audit.findings import Findings
from labelnoise.audit.recorder import Recorder
from labelnoise.errors import LabelNoiseError

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise LabelNoiseError("this needs Lightning: pip install 'labelnoise[lightning]'") from error


class LabelAudit(Callback):
    """Records every training step, whatever its loss.

        def training_step(self, batch, batch_idx):
            inputs, labels, rows = batch
            logits = self(inputs)
            loss = self.criterion(logits, labels)
            return {"loss": loss, "logits": logits, "labels": labels, "sample_ids": rows}

        audit = LabelAudit("issues.csv")
        Trainer(callbacks=[audit]).fit(module, loader)
        audit.issues()

    What `training_step` does not return is taken from the batch, if that is a dictionary. The
    record is in the checkpoint, so that a training that goes on goes on with it.

    Args:
        path: Where to write the table of issues when the training ends; without, nowhere.
        classes: What each label is called.
        logits, labels, sample_ids: Under which keys they are found.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        classes: Sequence[str] | None = None,
        logits: str = "logits",
        labels: str = "labels",
        sample_ids: str = "sample_ids",
    ) -> None:
        super().__init__()
        self.path = None if path is None else Path(path)
        self.keys = (logits, labels, sample_ids)
        self.recorder = Recorder(classes=classes)

    def issues(self) -> Findings:
        """What was found so far."""
        return self.recorder.issues()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse what would be recorded in part."""
        if stage == "fit" and trainer.world_size > 1:
            raise LabelNoiseError(
                f"LabelAudit records one process, and {trainer.world_size} would train: pass "
                "Trainer(devices=1)"
            )

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Record a step, be it one of several whose gradients are added up."""
        self.recorder.update(*(_found(key, outputs, batch) for key in self.keys))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write what was found."""
        if self.path is not None:
            self.issues().write_csv(self.path)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return self.recorder.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go back to it."""
        self.recorder.load_state_dict(state_dict)


def _found(key: str, outputs: Any, batch: Any) -> Any:
    for place in (outputs, batch):
        if isinstance(place, Mapping) and key in place:
            return place[key]
    raise LabelNoiseError(
        f"LabelAudit finds no {key!r}: return it from training_step, as in return "
        '{"loss": loss, "logits": logits, "labels": labels, "sample_ids": rows}, or name its key, '
        "as in LabelAudit(logits=...)"
    )
