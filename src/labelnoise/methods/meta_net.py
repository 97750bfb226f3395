"""Meta-Net, meta-weight-net: Shu et al., NeurIPS 2019, arXiv 1902.07379.

A small network V maps a sample's loss to its weight; V learns on a trusted set which weights make
the next step of the main network a good one. It needs a trusted set.

Deviations: this is the method's own (V with one hidden layer of 100, its input a plain number, mean
of weighted losses), not the BARE authors' version of it (V of 50 and 50 units,
gradients through its input, weights normalised and averaged once more, a fixed inner rate of 1e-4).
With the latter V stays where it starts or goes either way by chance (docs/methods.md), so the BARE
paper's rows for this method tell of those settings and are no aim of ours.
- The virtual step is taken at the main optimiser's current rate, as in the authors' code, and V's
  weight decay is decoupled (AdamW): with the small rates that Adam has, the meta-gradient is so
  small that coupled decay would be all that V follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from labelnoise import dist
from labelnoise.batch import Batch, Step
from labelnoise.errors import at_least
from labelnoise.learner import twice_differentiable
from labelnoise.losses import cross_entropy, mean
from labelnoise.method import Method
from labelnoise.problem import Problem


def weight_net(hidden: int) -> nn.Sequential:
    """V: a loss in, a weight in (0, 1) out."""
    return nn.Sequential(
        nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, 1), nn.Sigmoid(), nn.Flatten(0)
    )


@dataclass
class MetaNet(Method):
    """Learn, on trusted data, which weight a loss deserves.

    Attributes:
        hidden: Units of V.
        meta_lr: V's learning rate.
        meta_decay: V's weight decay.
        inner_lr: Length of the virtual step; `None` is the learning rate of the moment.
        trusted_batch: Trusted samples a step, as many as there are at most; the BARE paper takes
            all its 1,000.
    """

    needs_trusted = True

    hidden: int = 100
    meta_lr: float = 1e-3
    meta_decay: float = 1e-4
    inner_lr: float | None = None
    trusted_batch: int = 1000

    def __post_init__(self) -> None:
        """Refuse a network or a batch of nothing."""
        at_least(1, hidden=self.hidden, trusted_batch=self.trusted_batch)
        at_least(0, meta_lr=self.meta_lr, meta_decay=self.meta_decay, inner_lr=self.inner_lr or 0)

    def setup(self, problem: Problem) -> None:
        """The network, V with its optimiser, and an endless walk over the trusted set."""
        self.trusted = problem.verified("Meta-Net").forever(self.trusted_batch)
        self.learner = problem.new_learner()
        parameter = self.learner.parameters[0]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.generator.initial_seed())
            self.weight_net = weight_net(self.hidden)
        wide = torch.promote_types(parameter.dtype, torch.float32)
        self.weight_net.to(parameter.device, wide)
        self.weight_optimiser = AdamW(
            self.weight_net.parameters(), lr=self.meta_lr, weight_decay=self.meta_decay
        )

    def step(self, batch: Batch) -> Step:
        """A virtual step under V's weights teaches V; V's new weights serve the real one."""
        with twice_differentiable():
            log_probs = self.learner.logits(batch.inputs).log_softmax(dim=1)
        losses = cross_entropy(log_probs, batch.labels)
        virtual_loss = mean(self._weights(losses) * losses)
        inner_lr = self.learner.lr if self.inner_lr is None else self.inner_lr
        ahead = self.learner.lookahead(virtual_loss, inner_lr)

        trusted = next(self.trusted)
        ahead_log_probs = ahead(trusted.inputs).log_softmax(dim=1)
        trusted_loss = mean(cross_entropy(ahead_log_probs, trusted.labels))
        self.weight_optimiser.zero_grad()
        parameters = list(self.weight_net.parameters())
        trusted_loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
        dist.average_gradients(parameters)
        self.weight_optimiser.step()

        weight = self._weights(losses).detach()
        loss = mean(weight * losses)
        self.learner.descend(loss, len(losses))
        return Step(
            index=batch.index,
            weight=weight,
            loss=loss.detach(),
            probs=log_probs.detach().exp(),
        )

    def _weights(self, losses: Tensor) -> Tensor:
        parameter = next(self.weight_net.parameters())
        weights: Tensor = self.weight_net(losses.detach().to(parameter.dtype).unsqueeze(1))
        return weights
