"""Method: one way of learning from labels that may be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labelnoise.batch import Batch, Step
from labelnoise.learner import Learner
from labelnoise.losses import cross_entropy, mean
from labelnoise.passes import Passes
from labelnoise.problem import Problem

if TYPE_CHECKING:
    from labelnoise.data.train import Train


class Method:
    """The protocol; a method is a dataclass whose fields are its hyper-parameters.

    Class attributes without annotation are declarations about the method: how many `views` of a
    sample it wants, whether it `needs_trusted` data.
    """

    views = 1
    needs_trusted = False
    learner: Learner

    def setup(self, problem: Problem) -> None:
        """Make what training changes: networks, tables per sample."""
        self.learner = problem.new_learner()

    def step(self, batch: Batch) -> Step:
        """Learn from one mini-batch."""
        raise NotImplementedError(f"{type(self).__name__} must define step or epoch")

    def epoch(self, train: Train, number: int) -> Iterator[Step]:
        """Learn from the whole training set once; work before and after the batches goes here."""
        for batch in train.batches(number, self.views):
            yield self.step(batch)

    def log_probs(self, inputs: Tensor) -> Tensor:
        """What the method predicts, as log-probabilities (they do not underflow).

        Several networks predict the mean of their probabilities.
        """
        opinions = [learner.log_probs(inputs) for learner in self.learners()]
        if len(opinions) == 1:
            return opinions[0]
        return torch.stack(opinions).logsumexp(dim=0) - math.log(len(opinions))

    def predict(self, inputs: Tensor) -> Tensor:
        """What the method predicts, as probabilities: (batch, ...) -> (batch, classes)."""
        return self.log_probs(inputs).exp()

    def validation_loss(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """The loss on validation data with given labels; a plateau schedule watches it."""
        return cross_entropy(log_probs, labels).mean()

    def opinions(self) -> list[Callable[[Tensor], Tensor]]:
        """What is assessed after every epoch: a prediction like `log_probs` for every learner."""
        learners = self.learners()
        return [self.log_probs] if len(learners) == 1 else [one.log_probs for one in learners]

    def learners(self) -> list[Learner]:
        """Every network with an optimiser, in a fixed order."""
        return [part for part in self._made().values() if isinstance(part, Learner)]

    def state_dict(self) -> dict[str, Any]:
        """All that `setup` made and training changed."""
        return {name: _state(part) for name, part in self._made().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a `state_dict`, after `setup` on the same problem."""
        for name, part in self._made().items():
            if name in state or not isinstance(part, Passes):  # older versions had no passes
                _restore(part, state[name])

    def own_state_dict(self) -> dict[str, Any]:
        """What may differ between processes that train together: all but the networks."""
        learners = [name for name, part in self._made().items() if isinstance(part, Learner)]
        return {name: part for name, part in self.state_dict().items() if name not in learners}

    def _made(self) -> dict[str, Any]:
        """Attributes that are not hyper-parameters and that hold a state."""
        settings: list[str] = [field.name for field in fields(self)] if is_dataclass(self) else []
        return {
            name: part
            for name, part in vars(self).items()
            if name not in settings
            and (isinstance(part, Tensor | torch.Generator) or hasattr(part, "state_dict"))
        }


class LossMethod(Method):
    """A method that is nothing but a loss for every sample, averaged over the batch."""

    def losses(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """The loss of every sample: (batch, classes), (batch,) -> (batch,)."""
        raise NotImplementedError(f"{type(self).__name__} must define losses")

    def step(self, batch: Batch) -> Step:
        """Descend on the mean loss; every sample counts alike."""
        log_probs = self.learner.logits(batch.inputs).log_softmax(dim=1)
        losses = self.losses(log_probs, batch.labels)
        loss = mean(losses)
        self.learner.descend(loss, len(losses))
        return Step(
            index=batch.index,
            weight=torch.ones_like(losses),
            loss=loss.detach(),
            probs=log_probs.detach().exp(),
        )

    def validation_loss(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """The mean of the method's own loss."""
        return self.losses(log_probs, labels).mean()


def _state(part: Any) -> Any:
    if isinstance(part, torch.Generator):
        return part.get_state()
    return part if isinstance(part, Tensor) else part.state_dict()


def _restore(part: Any, state: Any) -> None:
    if isinstance(part, torch.Generator):
        part.set_state(state)
    elif isinstance(part, Tensor):
        with torch.no_grad():  # it may be trained itself
            part.copy_(state)
    else:
        part.load_state_dict(state)
