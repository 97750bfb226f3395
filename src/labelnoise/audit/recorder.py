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
from labelnoise.rules.evidence import odds as odds_of

TOGETHER = 32  # steps that may wait to be recorded, for speed alone
LARGE = 1 << 16  # probabilities of a step that does not wait, nor does anything before it
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
        if samples is not None and samples < 0:
            raise LabelNoiseError(f"samples must be a number of rows, got {samples}")
        self.classes = None if classes is None else tuple(classes)
        self.rule = rule
        self._known = 0  # how many classes a state was about
        self._own_rule = rule is None
        self._places: dict[Hashable, int] | None = {} if samples is None else None
        self._samples = _room(FIRST if samples is None else samples)
        self._waiting: list[tuple[Tensor, ...]] = []
        self._doubts = torch.empty(0)  # the rule's, for what waits

    def update(self, logits: Any, labels: Any, sample_ids: Any) -> None:
        """Take in one step of a training.

        Args:
            logits: (batch, classes) scores before softmax, a tensor or an array.
            labels: (batch,) labels as given.
            sample_ids: (batch,) which samples these are.
        """
        logits = _tensor(logits, "logits").detach()
        labels = _tensor(labels, "labels").to(logits.device)
        check_batch(logits, labels, "logits")
        if self.classes is not None and logits.shape[1] != len(self.classes):
            raise LabelNoiseError(
                f"logits are of {logits.shape[1]} classes, the recorder has names for "
                f"{len(self.classes)}"
            )
        labels, index = labels.long(), self._index(sample_ids, labels)
        wide = torch.promote_types(logits.dtype, torch.float32)
        probs = logits.to(wide).softmax(dim=1)
        self.add(probs, labels.clone(), index)  # the loop may change its own

    def add(self, probs: Tensor, labels: Tensor, index: Tensor, keep: Tensor | None = None) -> None:
        """Take in a step, unchecked; it waits for others, so that nothing of it may be changed.

        Args:
            probs: (batch, classes) probabilities.
            labels: (batch,) labels as given.
            index: (batch,) rows of the record.
            keep: (batch,) the labels that the rule took for right, if it was asked already.
        """
        if keep is None:
            keep = self._judged(probs, labels)
        doubts = self._rule(probs).doubts()
        if doubts is not self._doubts:
            self._note()  # what waits belongs to the table before
            self._doubts = doubts
        self._waiting.append((index, labels, keep, probs.detach()))
        if len(self._waiting) >= TOGETHER or probs.numel() >= LARGE:
            self._note()

    def issues(self) -> Findings:
        """What was found of all samples that were seen.

        They are in the order of their numbers where `samples` was given, else in that of their
        first visits.
        """
        self._note()
        rows = self._samples["seen"].nonzero().squeeze(1)
        if not len(rows):
            raise LabelNoiseError("nothing was recorded yet: call update in every training step")
        known = self._known if self.rule is None else self.rule.num_classes
        classes = self.classes or tuple(map(str, range(known)))
        record = {name: values[rows].cpu().numpy() for name, values in self._samples.items()}
        return findings_of(record, self._names(rows.tolist()), classes)

    def state_dict(self) -> dict[str, Any]:
        """The record so far; with the evidence, unless that is somebody else's."""
        self._note()
        samples = {name: values.clone() for name, values in self._samples.items()}
        state: dict[str, Any] = {"samples": samples}
        if self._places is not None:
            state["ids"] = list(self._places)
        if self.rule is not None:
            state["classes"] = self.rule.num_classes
        if self._own_rule and self.rule is not None:
            state["rule"] = self.rule.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a `state_dict`."""
        ids = state.get("ids")
        self._places = None if ids is None else {name: place for place, name in enumerate(ids)}
        self._samples = {name: values.clone() for name, values in state["samples"].items()}
        self._waiting = []
        self._known = state.get("classes", 0)
        if self._own_rule:
            self.rule = None
            if "rule" in state:
                self.rule = Evidence(state["classes"])
                self.rule.load_state_dict(state["rule"])

    def _rule(self, probs: Tensor) -> Evidence:
        """The evidence, made as soon as the number of classes is known, where they are."""
        if self.rule is None:
            # The first step may be one without gradient: what is made there must learn later.
            with torch.inference_mode(mode=False):
                self.rule = Evidence(probs.shape[1])
        if self._own_rule and self.rule.votes.device != probs.device:
            self.rule.to(probs.device)
        return self.rule

    def _judged(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The labels that the rule takes for right."""
        rule = self._rule(probs)
        verdict = rule.judge(probs, labels)
        if self._own_rule:
            rule.remember(probs, labels, verdict)
        return verdict.keep

    @torch.no_grad()
    def _note(self) -> None:
        """Add what waits to the record, visit by visit."""
        if not self._waiting:
            return
        waiting, self._waiting = zip(*self._waiting, strict=True), []
        index, labels, keep, probs = map(torch.cat, waiting)
        odds, other, share = odds_of(self._doubts, probs, labels)
        self._to(labels.device)
        record = self._samples
        for part in _apart(index):
            rows = index[part]
            seen = record["seen"].index_select(0, rows) + 1
            weight = seen.to(odds.dtype)
            record["seen"][rows] = seen
            record["given"][rows] = labels[part]
            record["odds"].index_add_(0, rows, odds[part] * weight)
            record["kept"].index_add_(0, rows, keep[part].to(weight.dtype) * weight)
            self._vote(rows, other[part], share[part] * weight)

    def _vote(self, index: Tensor, other: Tensor, credit: Tensor) -> None:
        """A majority vote with one candidate a sample: what agrees adds, what differs takes off."""
        record = self._samples
        candidate = record["candidate"].index_select(0, index)
        before = record["credit"].index_select(0, index)
        support = record["support"].index_select(0, index)
        same = candidate == other
        after = torch.where(same, before + credit, before - credit)
        won = after < 0  # by the other one, of whose earlier votes nothing is known any more
        record["candidate"][index] = torch.where(won, other, candidate)
        record["credit"][index] = after.abs()
        record["support"][index] = torch.where(won, credit, support + credit * same)

    def _index(self, sample_ids: Any, labels: Tensor) -> Tensor:
        """The rows of the record that hold these samples."""
        names = _plain(sample_ids)
        if len(names) != len(labels):
            raise LabelNoiseError(f"{len(labels)} labels, but {len(names)} sample ids")
        rows = self._numbers(names) if self._places is None else self._placed(names, self._places)
        return torch.tensor(rows, device=labels.device, dtype=torch.long)

    def _numbers(self, names: list[Any]) -> list[int]:
        """Ids that are rows already."""
        room = len(self._samples["seen"])
        if any(isinstance(each, bool) or not isinstance(each, int) for each in names):
            raise LabelNoiseError("sample ids must be whole numbers where samples is given")
        if names and not 0 <= min(names) <= max(names) < room:
            raise LabelNoiseError(
                f"sample ids must lie in [0, {room}), got {min(names)} to {max(names)}: pass the "
                "right number of samples, or none"
            )
        return names

    def _placed(self, names: list[Any], places: dict[Hashable, int]) -> list[int]:
        """The rows of ids that may be anything; what is new gets the next one."""
        try:
            rows = [places.setdefault(each, len(places)) for each in names]
        except TypeError:
            raise LabelNoiseError(
                "a sample id must be one number, one string or one tuple, got "
                f"{type(names[0]).__name__}: pass (batch,) ids"
            ) from None
        self._grow(len(places))
        return rows

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

    `seen` counts visits; `odds` and `kept` (the label was taken for right) are sums over them, the
    n-th taken n times; `candidate` is the class that a label should be otherwise, `credit` what
    speaks for it less what speaks for others, `support` what speaks for it.
    """
    return {
        "seen": torch.zeros(samples, dtype=torch.long),
        "given": torch.zeros(samples, dtype=torch.long),
        "kept": torch.zeros(samples),
        "odds": torch.zeros(samples),
        "candidate": torch.zeros(samples, dtype=torch.long),
        "credit": torch.zeros(samples),
        "support": torch.zeros(samples),
    }


def _apart(index: Tensor) -> Iterator[Tensor]:
    """Positions in parts that hold every sample at most once, first visits first.

    Epochs end while steps wait; and samplers may draw with replacement, or rare classes more often.
    """
    order = torch.argsort(index, stable=True)
    ordered = index[order]
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    place = torch.arange(len(index), device=index.device)
    turn = place - torch.where(begins, place, 0).cummax(dim=0).values
    for each in range(int(turn.max()) + 1 if len(turn) else 0):
        yield order[turn == each]


def _plain(ids: Any) -> list[Any]:
    """Ids as Python's own values: a tensor's number is no good key."""
    try:
        values = ids.tolist() if isinstance(ids, Tensor | np.ndarray) else list(ids)
        return [each.item() if isinstance(each, Tensor | np.generic) else each for each in values]
    except (TypeError, ValueError, RuntimeError):
        kind = type(ids).__name__
        raise LabelNoiseError(f"sample ids must be (batch,) ids, got {kind}") from None


def _tensor(values: Any, name: str) -> Tensor:
    """Numbers of whatever kind as a tensor."""
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # torch would warn of what it shares
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise LabelNoiseError(f"{name} must be numbers, got {type(values).__name__}") from None
