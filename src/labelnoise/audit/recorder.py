"""Recorder: what a training thinks of every label, in a few numbers a sample.

Every visit of a sample leaves the logarithm of the odds that its label is right (Bayes' rule with
the network's probabilities and the noise that the evidence has found so far). Their mean over the
visits, later ones counting more (the n-th n times), is what a label is judged by in the end: one
visit is chance, a habit is not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelnoise.audit.findings import Findings
from labelnoise.audit.score import findings_of
from labelnoise.errors import LabelNoiseError
from labelnoise.methods.bare import check_batch
from labelnoise.rules.evidence import Evidence

FIRST = 1024  # samples that there is room for at first, where it is not known how many will come


class Recorder:
    """Watches a training, whatever its loss, and tells which labels are wrong.

        recorder = Recorder()
        ...
            recorder.update(logits, labels, sample_ids)  # in every training step
        ...
        for issue in recorder.issues().rows(): ...

    Args:
        samples: How many samples there are, if their ids are the numbers below it; without, an id
            may be anything that can be the key of a dictionary.
        classes: What each label is called; without, labels are called by their number.
        rule: Evidence that somebody else adds to, such as that of `BARELoss`; without, the recorder
            gathers its own.
    """

    def __init__(
        self,
        samples: int | None = None,
        classes: Sequence[str] | None = None,
        rule: Evidence | None = None,
    ) -> None:
        self.classes = None if classes is None else tuple(classes)
        self.rule = rule
        self._own_rule = rule is None
        self._places: dict[Hashable, int] | None = {} if samples is None else None
        self._samples = _room(FIRST if samples is None else samples)

    def update(self, logits: Any, labels: Any, sample_ids: Any) -> None:
        """Take in one step of a training.

        Args:
            logits: (batch, classes) scores before softmax, a tensor or an array.
            labels: (batch,) labels as given.
            sample_ids: (batch,) which samples these are.
        """
        logits, labels = torch.as_tensor(logits).detach(), torch.as_tensor(labels)
        check_batch(logits, labels, "logits")
        if self.classes is not None and logits.shape[1] != len(self.classes):
            raise LabelNoiseError(
                f"logits are of {logits.shape[1]} classes, the recorder has names for "
                f"{len(self.classes)}"
            )
        if len(sample_ids) != len(labels):
            raise LabelNoiseError(f"{len(labels)} labels, but {len(sample_ids)} sample ids")
        labels, index = labels.long(), self._index(sample_ids, labels)
        wide = torch.promote_types(logits.dtype, torch.float32)
        probs = logits.to(wide).softmax(dim=1)
        keep = self._judged(probs, labels)
        for part in _apart(index):
            self._note(probs[part], labels[part], index[part], keep[part])

    def add(self, probs: Tensor, labels: Tensor, index: Tensor, keep: Tensor | None = None) -> None:
        """Take in a step, unchecked.

        Args:
            probs: (batch, classes) probabilities.
            labels: (batch,) labels as given.
            index: (batch,) rows of the record; each at most once.
            keep: (batch,) the labels that the rule took for right, if it was asked already.
        """
        self._note(probs, labels, index, self._judged(probs, labels) if keep is None else keep)

    def _judged(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The labels that the rule takes for right."""
        if self.rule is None:
            self.rule = Evidence(probs.shape[1]).to(probs.device)
        verdict = self.rule.judge(probs, labels)
        if self._own_rule:
            self.rule.remember(probs, labels.clone(), verdict)
        return verdict.keep

    @torch.no_grad()
    def _note(self, probs: Tensor, labels: Tensor, index: Tensor, keep: Tensor) -> None:
        """Add a visit to the record of each of these samples."""
        assert self.rule is not None  # noqa: S101 - for the type checker
        self._to(labels.device)
        odds, other, share = self.rule.odds(probs, labels)
        record = self._samples
        seen = record["seen"].index_select(0, index) + 1
        weight = seen.to(odds.dtype)
        record["seen"][index] = seen
        record["given"][index] = labels
        record["odds"].index_add_(0, index, odds * weight)
        record["kept"].index_add_(0, index, keep.long())
        self._vote(index, other, share * weight)

    def issues(self) -> Findings:
        """What was found of all samples that were seen, in the order of their ids."""
        rows = self._samples["seen"].nonzero().squeeze(1)
        if not len(rows):
            raise LabelNoiseError("nothing was recorded yet: call update in every training step")
        known = 0 if self.rule is None else self.rule.num_classes
        classes = self.classes or tuple(map(str, range(known)))
        record = {name: values[rows].cpu().numpy() for name, values in self._samples.items()}
        return findings_of(record, self._names(rows.tolist()), classes)

    def state_dict(self) -> dict[str, Any]:
        """The record so far; with the evidence, unless that is somebody else's."""
        state: dict[str, Any] = {"samples": dict(self._samples)}
        if self._places is not None:
            state["ids"] = list(self._places)
        if self._own_rule and self.rule is not None:
            state["classes"] = self.rule.num_classes
            state["rule"] = self.rule.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a `state_dict`."""
        if "ids" in state:
            self._places = {name: place for place, name in enumerate(state["ids"])}
        self._samples = {name: values.clone() for name, values in state["samples"].items()}
        if "rule" in state:
            self.rule = Evidence(state["classes"])
            self.rule.load_state_dict(state["rule"])

    def _vote(self, index: Tensor, other: Tensor, credit: Tensor) -> None:
        """A majority vote with one candidate a sample: what agrees adds, what differs takes off."""
        record = self._samples
        candidate = record["candidate"].index_select(0, index)
        before = record["credit"].index_select(0, index)
        after = torch.where(candidate == other, before + credit, before - credit)
        record["candidate"][index] = torch.where(after < 0, other, candidate)
        record["credit"][index] = after.abs()

    def _index(self, sample_ids: Any, labels: Tensor) -> Tensor:
        """The rows of the record that hold these samples."""
        if self._places is None:
            index = torch.as_tensor(sample_ids, device=labels.device)
            if index.is_floating_point() or index.dtype == torch.bool or index.ndim != 1:
                raise LabelNoiseError("sample ids must be whole numbers where samples is given")
            index, room = index.long(), len(self._samples["seen"])
            if len(index) and not 0 <= int(index.min()) <= int(index.max()) < room:
                raise LabelNoiseError(
                    f"sample ids must lie in [0, {room}), got {int(index.min())} to "
                    f"{int(index.max())}: pass the right number of samples, or none"
                )
        else:
            places = self._places
            index = torch.tensor(
                [places.setdefault(each, len(places)) for each in _plain(sample_ids)],
                device=labels.device,
                dtype=torch.long,
            )
            self._grow(len(places))
        return index

    def _names(self, rows: Iterable[int]) -> tuple[str, ...]:
        names = None if self._places is None else list(self._places)
        return tuple(str(row if names is None else names[row]) for row in rows)

    def _grow(self, needed: int) -> None:
        have = len(self._samples["seen"])
        if needed > have:
            more = _room(max(needed, 2 * have) - have)
            self._samples = {
                name: torch.cat([values, more[name].to(values.device)])
                for name, values in self._samples.items()
            }

    def _to(self, device: torch.device) -> None:
        if self._samples["seen"].device != device:
            self._samples = {name: values.to(device) for name, values in self._samples.items()}


def _room(samples: int) -> dict[str, Tensor]:
    """An empty record of so many samples.

    `seen` and `kept` count visits; `odds` is a sum over them, the n-th taken n times; `candidate`
    is the class that a label should be otherwise, `credit` what speaks for it.
    """
    return {
        "seen": torch.zeros(samples, dtype=torch.long),
        "given": torch.zeros(samples, dtype=torch.long),
        "kept": torch.zeros(samples, dtype=torch.long),
        "odds": torch.zeros(samples),
        "candidate": torch.zeros(samples, dtype=torch.long),
        "credit": torch.zeros(samples),
    }


def _apart(index: Tensor) -> Iterator[Tensor]:
    """Positions of a step in which every sample stands once; more than one part if some are twice.

    Samplers that draw with replacement, or that draw rare classes more often, make such steps.
    """
    order = torch.argsort(index, stable=True)
    ordered = index[order]
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    place = torch.arange(len(index), device=index.device)
    turn = place - torch.where(begins, place, 0).cummax(dim=0).values
    for each in range(int(turn.max()) + 1 if len(turn) else 0):
        yield order[turn == each]


def _plain(ids: Any) -> list[Hashable]:
    """Ids as Python's own values: a tensor's number is no good key."""
    values: list[Hashable] = ids.tolist() if isinstance(ids, Tensor | np.ndarray) else list(ids)
    return [each.item() if isinstance(each, Tensor | np.generic) else each for each in values]
