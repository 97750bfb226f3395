"""Tally: the steps of a run, added up into one row an epoch and one record a sample."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.batch import Step
from labelnoise.errors import LabelNoiseError
from labelnoise.metrics.selection import label_precision, label_recall, selected_fraction

BUFFER = 4_000_000  # probabilities that may wait before they are added up: 16 MB of float32
WAITING = 512  # steps that may


class Tally:
    """What steps report, kept on their device until the epoch ends.

    Adding a step costs two list operations; the sums are made for many steps at once. The true
    labels come in only with `row`, after the method has done its work.
    """

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels
        rows = len(labels)
        self.samples = {
            "seen": labels.new_zeros(rows),
            "selected": labels.new_zeros(rows),
            "probability_last": labels.new_zeros(rows, dtype=torch.float32),
            "probability_sum": labels.new_zeros(rows, dtype=torch.float32),
            "predicted": labels.new_full((rows,), -1),
        }
        self._begin_epoch()

    def add(self, step: Step) -> None:
        """Take in one step."""
        self._steps.append(step)
        self._waiting += 0 if step.probs is None else step.probs.numel()
        if self._waiting > BUFFER or len(self._steps) >= WAITING:
            self._flush()

    def row(self, truth: Tensor | None, *, epoch: int, trace: bool = False) -> dict[str, Any]:
        """End the epoch: its numbers, as plain Python values.

        Args:
            truth: (rows,) true labels, where they are known.
            epoch: Its number, from 1.
            trace: Whether to keep the thresholds of every mini-batch.

        Raises:
            LabelNoiseError: The loss of a step was NaN or infinite.
        """
        self._flush()
        # The loss of a step is the mean over the processes that made it together.
        (losses,) = dist.mean([torch.cat(self._losses)])
        counts = dist.total(torch.cat(self._counts))
        # By way of the host: an Apple GPU has no float64.
        losses, counts = losses.cpu().double(), counts.cpu().double()
        self._check(losses, epoch)
        self._take_in()
        # Of the whole training set: a method may leave rows out of its batches, or draw some twice.
        selected = (self._chosen > 0).cpu()
        row: dict[str, Any] = {
            "epoch": epoch,
            "train_loss": _plain((losses * counts).sum() / counts.sum()),
            "label_precision": None,
            "label_recall": None,
            "selected_fraction": _plain(selected_fraction(selected)),
            "weight_mean": _plain(counts.sum() / self._drawn),
        }
        if truth is not None:
            right = (self.labels == truth).cpu()
            row["label_precision"] = _plain(label_precision(selected, right))
            row["label_recall"] = _plain(label_recall(selected, right))
        row |= self._notes(trace)
        self._begin_epoch()
        return row

    def state_dict(self) -> dict[str, Tensor]:
        """The per-sample record so far."""
        return dict(self.samples)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go back to a `state_dict`."""
        for name, values in self.samples.items():
            values.copy_(state[name])

    def _begin_epoch(self) -> None:
        self._steps: list[Step] = []
        self._waiting = 0
        self._index: list[Tensor] = []
        self._selected: list[Tensor] = []
        self._told: list[tuple[Tensor, Tensor, Tensor]] = []
        self._losses: list[Tensor] = []
        self._counts: list[Tensor] = []
        self._thresholds: list[Tensor] = []
        self._empty: list[Tensor] = []
        self._rates: list[Tensor] = []
        self._chosen = torch.zeros_like(self.labels, dtype=torch.int32)  # how often
        self._drawn = 0  # rows, as often as they were

    def _flush(self) -> None:
        """Add up the steps that wait."""
        if not self._steps:
            return
        steps, self._steps, self._waiting = self._steps, [], 0
        index = torch.cat([step.index for step in steps])
        selected = torch.cat([s.weight > 0 if s.keep is None else s.keep for s in steps])
        self._index.append(index)
        self._selected.append(selected)
        # One tensor of many numbers: as tensors, those of a million samples would take 20 MB.
        self._losses.append(torch.stack([step.loss for step in steps]))
        counts = [step.weight.sum(dtype=torch.float32) for step in steps]
        self._counts.append(torch.stack(counts))
        for name, kept in (
            ("thresholds", self._thresholds),
            ("empty", self._empty),
            ("noise_rate", self._rates),
        ):
            found = [step.notes[name] for step in steps if name in step.notes]
            if found:
                kept.append(torch.stack(found))
        told = [(step.index, step.probs) for step in steps if step.probs is not None]
        if told:
            rows, probs = (torch.cat(each) for each in zip(*told, strict=True))
            given = probs.gather(1, self.labels[rows].unsqueeze(1)).squeeze(1).float()
            self._told.append((rows, given, probs.argmax(dim=1)))
        if dist.processes() == 1:  # else it waits for the end of the epoch, when all meet
            self._take_in()

    def _take_in(self) -> None:
        """Add what waits to the record of the samples, that of other processes too."""
        if not self._index:
            return
        index = dist.gathered(torch.cat(self._index))
        selected = dist.gathered(torch.cat(self._selected))
        self.samples["seen"].index_add_(0, index, torch.ones_like(index))
        self.samples["selected"].index_add_(0, index, selected.to(index.dtype))
        if self._told:
            told = (dist.gathered(torch.cat(each)) for each in zip(*self._told, strict=True))
            rows, given, predicted = told
            self.samples["probability_last"][rows] = given
            self.samples["probability_sum"].index_add_(0, rows, given)
            self.samples["predicted"][rows] = predicted
        self._chosen.index_add_(0, index, selected.to(self._chosen.dtype))
        self._drawn += len(index)
        self._index, self._selected, self._told = [], [], []

    def _check(self, losses: Tensor, epoch: int) -> None:
        bad = (~torch.isfinite(losses)).nonzero()
        if len(bad):
            raise LabelNoiseError(
                f"the loss became NaN or infinite in step {int(bad[0]) + 1} of epoch {epoch}: "
                "lower the learning rate (--set lr=...) or check the inputs"
            )

    def _notes(self, trace: bool) -> dict[str, Any]:
        notes: dict[str, Any] = {}
        if self._thresholds:
            by_batch = torch.cat(self._thresholds).cpu().double()
            notes["thresholds"] = _by_class(by_batch)
            if trace:
                notes["thresholds_by_batch"] = _plain(by_batch)
        if self._empty:
            notes["empty_selections"] = int(torch.cat(self._empty).sum())
        if self._rates:
            notes["estimated_noise_rate"] = _plain(self._rates[-1][-1])
        return notes


def _by_class(thresholds: Tensor) -> dict[str, Any]:
    """Mean, smallest and largest of (steps, classes) thresholds; NaN where a class had none."""
    absent = thresholds.isnan()
    return {
        "mean": _plain(thresholds.nanmean(dim=0)),
        "min": _plain(thresholds.masked_fill(absent, math.inf).amin(dim=0)),
        "max": _plain(thresholds.masked_fill(absent, -math.inf).amax(dim=0)),
    }


def _plain(values: Tensor) -> Any:
    """Python numbers with seven digits, what float32 carries; what is not finite becomes None."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return float(f"{value:.7g}") if math.isfinite(value) else None

    return plain(values.tolist())
