"""LabelAudit for the Trainer of Hugging Face: its loss, and which labels are wrong.

The Trainer adds up the gradients of several micro-batches before it makes a step, and divides by
nothing what a `compute_loss_func` returns. With n samples in all, of which sample i counts w_i, the
gradient of the joined batch is sum(w_i g_i) / sum(w_i); that divisor is known only when the last
micro-batch has been judged. Until then n times the mean weight so far stands for it, and gradients
added up before are brought to the new divisor in place: the last one leaves the exact one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from labelnoise import dist
from labelnoise.adapters.torch_loss import BARELoss
from labelnoise.audit.findings import Findings
from labelnoise.audit.recorder import Recorder
from labelnoise.errors import LabelNoiseError

try:
    from transformers import TrainerCallback, default_data_collator
except ImportError as error:
    raise LabelNoiseError("this needs transformers: pip install 'labelnoise[hf]'") from error

COLUMN = "idx"
STATE = "labelnoise.pt"  # in the folder of a checkpoint
WATCHES: WeakKeyDictionary[nn.Module, RemovableHandle] = WeakKeyDictionary()  # one a model


class LabelAudit(TrainerCallback):  # type: ignore[misc]
    """The loss of a Trainer that classifies, and the record of every label.

        audit = LabelAudit()
        trainer = Trainer(
            model,
            TrainingArguments(..., remove_unused_columns=False),
            train_dataset=rows,  # each with a column "idx"
            data_collator=IdCollator(),
            compute_loss_func=audit,
            callbacks=[audit],
        )
        trainer.train()
        audit.issues()

    In evaluation it is the mean cross-entropy, and learns nothing. Evidence and record are stored
    beside the model in every checkpoint, and read again by `train(resume_from_checkpoint=...)`.

    Args:
        criterion: What gives one loss a sample: `BARELoss(reduction="none")`, the default, or any
            other, as `nn.CrossEntropyLoss(reduction="none")` for an audit alone.
        classes: What each label is called.
        record: Whether to record; without, no ids are needed.
        column: What the ids are called in the rows.
    """

    def __init__(
        self,
        criterion: nn.Module | None = None,
        *,
        classes: Sequence[str] | None = None,
        record: bool = True,
        column: str = COLUMN,
    ) -> None:
        self.criterion = BARELoss(reduction="none") if criterion is None else criterion
        if getattr(self.criterion, "reduction", "none") != "none":
            raise LabelNoiseError(
                "LabelAudit averages by itself: make the criterion with reduction='none'"
            )
        self.recorder = Recorder(classes=classes)
        self.record = record
        self.column = column
        self._model: nn.Module | None = None
        self._ids: Any = None
        self._restored = False
        self._step = _Step()

    def __call__(
        self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """The share of a micro-batch in the loss of a step; what `compute_loss_func` asks for."""
        logits, ids = _logits(outputs), self._ids
        self._ids = None
        if labels is None:
            raise LabelNoiseError("a batch has no labels: the rows need a column 'label'")
        if not (torch.is_grad_enabled() and logits.requires_grad):
            total = functional.cross_entropy(logits, labels, reduction="sum")
            return total.div(len(labels) if num_items_in_batch is None else num_items_in_batch)
        if self._model is None:
            raise LabelNoiseError("LabelAudit is a callback too: Trainer(..., callbacks=[audit])")
        if self.record:
            self._note(logits, labels, ids)
        losses = self.criterion(logits, labels)
        weight = self.criterion.weight if isinstance(self.criterion, BARELoss) else None
        weight = torch.ones_like(losses) if weight is None else weight
        return self._step.share(losses, weight, num_items_in_batch, self._model)

    def issues(self) -> Findings:
        """What was found so far."""
        return self.recorder.issues()

    def _note(self, logits: Tensor, labels: Tensor, ids: Any) -> None:
        if ids is None:
            raise LabelNoiseError(
                f"no sample ids reach the loss: give every row a column {self.column!r}, and pass "
                "data_collator=IdCollator() and TrainingArguments(remove_unused_columns=False); or "
                "LabelAudit(record=False)"
            )
        self.recorder.update(logits, labels, ids)

    # --- what the Trainer tells -------------------------------------------------------------------

    def on_init_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Stand before the model, which does not take ids."""
        self._watch(parts["model"])

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Go on with a checkpoint, where the Trainer does."""
        self._watch(parts["model"])
        if self.record and args.world_size > 1:
            raise LabelNoiseError(
                f"LabelAudit records one process, and {args.world_size} would train: start one, or "
                "pass LabelAudit(record=False)"
            )
        if state.global_step > 0 and not self._restored:
            self._restore(_checkpoint(args, state))
        self._restored = False

    def on_step_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Forget the step before."""
        self._step = _Step()

    def on_save(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Store evidence and record in the folder of the checkpoint."""
        if state.is_world_process_zero:
            torch.save(self.state_dict(), _checkpoint(args, state))

    def state_dict(self) -> dict[str, Any]:
        """Evidence and record."""
        return {
            "criterion": self.criterion.state_dict(),
            "recorder": self.recorder.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to it; the next `train` goes on with it."""
        self.criterion.load_state_dict(state["criterion"])
        self.recorder.load_state_dict(state["recorder"])
        self._restored = True

    def _restore(self, path: Path) -> None:
        try:
            state = torch.load(path, weights_only=True)
        except OSError as error:
            raise LabelNoiseError(
                f"{path}: {error.strerror or error}; where the checkpoint lies elsewhere, call "
                f"audit.load_state_dict(torch.load('.../{STATE}')) first"
            ) from error
        self.load_state_dict(state)

    def _watch(self, model: nn.Module) -> None:
        """Take the place of whichever audit stood before the model: it would take the ids.

        The last one stays there after a training: an evaluation may bring ids, too.
        """
        earlier = WATCHES.pop(model, None)
        if earlier is not None:
            earlier.remove()
        self._model = model
        WATCHES[model] = model.register_forward_pre_hook(self._take_ids, with_kwargs=True)

    def _take_ids(
        self, model: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self._ids = named.pop(self.column, None)
        return inputs, named


class _Step:
    """The micro-batches of one step of the optimiser."""

    def __init__(self) -> None:
        self.so_far: Tensor | None = None  # the sum of all weights, and how many there are
        self.divisor: Tensor | None = None

    def share(
        self, losses: Tensor, weight: Tensor, items: Tensor | int | None, model: nn.Module
    ) -> Tensor:
        """What a micro-batch adds to the loss of the step, divided by what is known so far.

        Gradients that were added up with an older divisor are corrected.
        """
        wide = torch.promote_types(weight.dtype, torch.float32)
        count = torch.full_like(weight, 1, dtype=wide)
        here = dist.total(torch.stack([weight.to(wide), count]).sum(dim=1))
        self.so_far = here if self.so_far is None else self.so_far + here
        total, count = self.so_far.unbind()
        divisor = total if items is None else total.mul(items).div(count)
        divisor = divisor.clamp(min=torch.finfo(wide).tiny)
        if self.divisor is not None:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_((self.divisor / divisor).to(parameter.grad.dtype))
        self.divisor = divisor
        return losses.sum().div(divisor)


class IdCollator:
    """Carries the ids of the rows past a collator that knows nothing of them.

    Args:
        collator: What makes a batch of the rest of the rows, as `DataCollatorWithPadding`.
        column: What the ids are called in the rows; rows without any pass as they are.
    """

    def __init__(
        self,
        collator: Callable[[list[Any]], Any] = default_data_collator,
        column: str = COLUMN,
    ) -> None:
        self.collator = collator
        self.column = column

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> Any:
        """A batch: that of the collator, with the ids beside."""
        rows = [dict(each) for each in features]
        ids = [row.pop(self.column) for row in rows if self.column in row]
        batch = self.collator(rows)
        if ids:
            numbers = all(isinstance(each, int) for each in ids)
            batch[self.column] = torch.tensor(ids) if numbers else ids
        return batch


def _logits(outputs: Any) -> Tensor:
    logits: Tensor = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
    return logits


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / STATE
