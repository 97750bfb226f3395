"""The noise rate without any verified label, from what a short BARE run predicts.

BARE's network learns from the labels that it finds likely, so after a few epochs its sure
predictions are nearly always right, also on the samples whose label it left out. Among the samples
that it surely takes for class j, the given labels are then distributed as transition[j]; the
fraction that differs from j, averaged over the classes, is the rate. Unsure predictions would count
the network's own mistakes as wrong labels; that is why they have no say.

The short run is a run like any other: it shows its progress, goes on where it was stopped, and its
folder lies beside that of the run that asked for it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from labelnoise.experiment.spec import Spec, expand

ESTIMATOR = "bare"
EPOCHS = 10
STEPS = 1000  # at least; ten epochs of a small data set teach a network nothing


def estimator(spec: Spec, rows: int) -> Spec:
    """The short run that estimates the noise rate for another one, on its data and its net.

    BARE is trained as we recommend it, for as long as it takes to tell classes apart.

    Args:
        spec: The run that needs the rate.
        rows: How many samples it trains on.
    """
    asked: dict[str, Any] = {
        "dataset": spec.dataset,
        "digest": spec.digest,
        "method": ESTIMATOR,
        "noise": spec.noise,
        "net": spec.net,
        "seed": spec.seed,
        "data_seed": spec.data_seed,
    }
    batch_size = expand(**asked).training.batch_size
    epochs = max(EPOCHS, math.ceil(STEPS * batch_size / rows))
    return expand(**asked, changes={"schedule": "constant", "epochs": epochs})


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
