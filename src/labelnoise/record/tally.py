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
        if self._waiting > BUFFER:
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
        (losses,) = dist.mean([torch.stack(self._losses)])
        counts = dist.total(torch.stack(self._counts))
        # By way of the host: an Apple GPU has no float64.
        losses, counts = losses.cpu().double(), counts.cpu().double()
        self._check(losses, epoch)
        index, chosen = self._take_in()
        # Of the whole training set: a method may leave rows out of its batches, or draw some twice.
        selected = torch.zeros_like(self.labels, dtype=torch.bool)
        selected[index[chosen]] = True
        selected = selected.cpu()
        row: dict[str, Any] = {
            "epoch": epoch,
            "train_loss": _plain((losses * counts).sum() / counts.sum()),
            "label_precision": None,
            "label_recall": None,
            "selected_fraction": _plain(selected_fraction(selected)),
            "weight_mean": _plain(counts.sum() / len(index)),
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

    def _flush(self) -> None:
        """Add up the steps that wait."""
        if not self._steps:
            return
        steps, self._steps, self._waiting = self._steps, [], 0
        index = torch.cat([step.index for step in steps])
        selected = torch.cat([s.weight > 0 if s.keep is None else s.keep for s in steps])
        self._index.append(index)
        self._selected.append(selected)
        self._losses += [step.loss for step in steps]
        self._counts += [step.weight.sum(dtype=torch.float32) for step in steps]
        self._thresholds += [s.notes["thresholds"] for s in steps if "thresholds" in s.notes]
        self._empty += [s.notes["empty"] for s in steps if "empty" in s.notes]
        self._rates += [s.notes["noise_rate"] for s in steps if "noise_rate" in s.notes]
        told = [(step.index, step.probs) for step in steps if step.probs is not None]
        if told:
            rows, probs = (torch.cat(each) for each in zip(*told, strict=True))
            given = probs.gather(1, self.labels[rows].unsqueeze(1)).squeeze(1).float()
            self._told.append((rows, given, probs.argmax(dim=1)))

    def _take_in(self) -> tuple[Tensor, Tensor]:
        """Add the epoch to the record of the samples, those of other processes too.

        Returns:
            The rows that were seen, and which of them were selected.
        """
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
        return index, selected

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
            by_batch = torch.stack(self._thresholds).cpu().double()
            notes["thresholds"] = _by_class(by_batch)
            if trace:
                notes["thresholds_by_batch"] = _plain(by_batch)
        if self._empty:
            notes["empty_selections"] = int(torch.stack(self._empty).sum())
        if self._rates:
            notes["estimated_noise_rate"] = _plain(self._rates[-1])
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
