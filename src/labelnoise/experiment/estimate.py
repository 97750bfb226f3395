"""The noise rate without any verified label, from what a short BARE run predicts.

BARE's network learns from the labels that it finds likely, so after a few epochs its sure
predictions are nearly always right, also on the samples whose label it left out. Among the samples
that it surely takes for class j, the given labels are then distributed as transition[j]; the
fraction that differs from j, averaged over the classes, is the rate. Unsure predictions would count
the network's own mistakes as wrong labels; that is why they have no say.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelnoise.data.dataset import Dataset
from labelnoise.data.scale import SCALES
from labelnoise.data.train import Train
from labelnoise.engine import evaluate, flushing_denormals, own_chance
from labelnoise.experiment.learners import new_learners
from labelnoise.experiment.parts import Noisy
from labelnoise.experiment.spec import Spec, expand
from labelnoise.method import Method
from labelnoise.problem import Problem
from labelnoise.seeds import derive, stream

ESTIMATOR = "bare"
EPOCHS = 10
STEPS = 1000  # at least; ten epochs of a small data set teach a network nothing


def estimated_rate(spec: Spec, dataset: Dataset, part: Noisy, device: torch.device) -> float:
    """The fraction of wrong labels in a run's training part, on the run's own net.

    BARE is trained as we recommend it, for as long as it takes to tell classes apart.
    """
    short = expand(
        dataset=spec.dataset,
        digest=spec.digest,
        method=ESTIMATOR,
        noise=spec.noise,
        net=spec.net,
        changes={"schedule": "constant"},
        seed=spec.seed,
    )
    train = Train(
        inputs=part.inputs.to(device),
        labels=part.given.to(device),
        scaling=SCALES[short.training.scale](part.inputs).to(device),
        batch_size=short.training.batch_size,
        seed=spec.seed,
    )
    num_classes = len(dataset.classes)
    problem = Problem(
        labels=train.labels,
        num_classes=num_classes,
        new_learner=new_learners(short, tuple(dataset.inputs.shape[1:]), num_classes, device),
        generator=stream(spec.seed, "estimate"),
    )
    return rate_after_training(short.method_instance(), problem, train)


def rate_after_training(method: Method, problem: Problem, train: Train) -> float:
    """The fraction of wrong labels, by what `method` predicts after a short training."""
    epochs = max(EPOCHS, math.ceil(STEPS * train.batch_size / len(train)))
    method.setup(problem)
    with flushing_denormals(), own_chance(train):
        torch.manual_seed(derive(train.seed, "estimate"))
        for number in range(epochs):
            for _ in method.epoch(train, number):
                pass
        log_probs = evaluate(method.log_probs, train.inputs, train.scaling)
    return rate_by_sure_predictions(log_probs.exp(), train.labels)


def rate_by_sure_predictions(probs: Tensor, labels: Tensor) -> float:
    """The fraction of wrong labels, from the samples whose prediction is surer than average.

    Args:
        probs: (rows, classes) predicted probabilities.
        labels: (rows,) given labels.
    """
    sureness, predicted = probs.double().max(dim=1)
    count = torch.bincount(predicted, minlength=probs.shape[1]).double()
    mean = torch.bincount(predicted, sureness, minlength=probs.shape[1]) / count
    sure = sureness >= mean[predicted] * (1 - 1e-9)  # the mean of equal numbers may exceed them
    wrong = (predicted != labels).double()
    votes = torch.bincount(predicted[sure], minlength=probs.shape[1])
    against = torch.bincount(predicted[sure], wrong[sure], minlength=probs.shape[1])
    rates = against / votes
    present = votes > 0
    return float((rates[present] * count[present]).sum() / count[present].sum())
