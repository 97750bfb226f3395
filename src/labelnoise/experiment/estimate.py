"""The noise rate without any verified label: what a short run of BARE finds.

Its rule, "evidence", estimates for every label how likely it is right; what is missing to 1, on
average over the labels, is the rate (`Evidence.noise_rate`).

The short run is a run like any other: it shows its progress, goes on where it was stopped, and its
folder lies beside that of the run that asked for it.
"""

from __future__ import annotations

import math
from typing import Any

from labelnoise.experiment.spec import Spec, expand
from labelnoise.record.run import Run

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
    processes = spec.training.processes
    batch_size = expand(**asked).training.batch_size * processes
    epochs = enough_epochs(rows, batch_size, least=EPOCHS)
    seen = {"crop": spec.training.crop, "weights": spec.training.weights, "processes": processes}
    return expand(**asked, changes={"schedule": "constant", "epochs": epochs, **seen})


def enough_epochs(rows: int, batch_size: int, least: int, steps: int = STEPS) -> int:
    """For how long to train at least, so that a small data set is learned too."""
    return max(least, math.ceil(steps / math.ceil(rows / batch_size)))


def estimated_rate(run: Run) -> float:
    """The fraction of wrong labels that such a run has found."""
    rate: float = run.rows[-1]["estimated_noise_rate"]
    return rate
