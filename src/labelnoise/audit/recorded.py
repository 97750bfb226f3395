"""Recorded: a method like any other that also keeps a record of every label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor

from labelnoise.audit.recorder import Recorder
from labelnoise.batch import Step
from labelnoise.learner import Learner
from labelnoise.method import Method
from labelnoise.problem import Problem
from labelnoise.rules.evidence import Evidence

if TYPE_CHECKING:
    from labelnoise.data.train import Train

RECORDER = "recorder"  # its place in a state


class Recorded(Method):
    """Learns as `method` does; its state is the method's, with the record beside it."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.views = method.views
        self.needs_trusted = method.needs_trusted

    def setup(self, problem: Problem) -> None:
        """What the method makes, and an empty record; evidence is gathered once where it can be."""
        self.method.setup(problem)
        rule = getattr(self.method, "rule", None)
        self._shared = isinstance(rule, Evidence)
        self.recorder = Recorder(len(problem.labels), rule=rule if self._shared else None)
        self._labels = problem.labels

    def epoch(self, train: Train, number: int) -> Iterator[Step]:
        """The method's own, watched."""
        for step in self.method.epoch(train, number):
            if step.probs is not None:
                labels = self._labels.index_select(0, step.index)
                self.recorder.add(
                    step.probs, labels, step.index, step.keep if self._shared else None
                )
            yield step

    def log_probs(self, inputs: Tensor) -> Tensor:
        """The method's own."""
        return self.method.log_probs(inputs)

    def validation_loss(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """The method's own."""
        return self.method.validation_loss(log_probs, labels)

    def opinions(self) -> list[Callable[[Tensor], Tensor]]:
        """The method's own."""
        return self.method.opinions()

    def learners(self) -> list[Learner]:
        """The method's own."""
        return self.method.learners()

    def state_dict(self) -> dict[str, Any]:
        """What the method alone would save, and the record."""
        return {**self.method.state_dict(), RECORDER: self.recorder.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to it."""
        self.method.load_state_dict(state)
        self.recorder.load_state_dict(state[RECORDER])
