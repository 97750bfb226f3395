"""What a run's folder says of it besides its rows: the header, and a record of every sample."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import labelnoise
from labelnoise.data.dataset import Dataset
from labelnoise.data.scale import Scaling
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.parts import Noisy, Parts
from labelnoise.experiment.spec import Spec
from labelnoise.noise import realised
from labelnoise.record.tally import Tally


def header_of(
    spec: Spec, dataset: Dataset, parts: Parts, scaling: Scaling, device: torch.device
) -> dict[str, Any]:
    """What a reader of the run needs to know, and what `predict` needs to load it."""
    header: dict[str, Any] = {
        "spec": spec.model_dump(mode="json"),
        "classes": list(dataset.classes),
        "shape": list(dataset.inputs.shape[1:]),
        "dtype": str(dataset.inputs.dtype),
        "scaling": {
            "shift": scaling.shift.tolist(),
            "factor": scaling.factor.tolist(),
        },
        "rows": {
            "train": len(parts.train.given),
            "validation": len(parts.validation.given),
            "test": len(parts.test.labels),
        },
        "versions": versions(),
        "commit": _commit(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }
    if dataset.encoding is not None:
        header["encoding"] = dict(dataset.encoding)
    if dataset.skipped:
        header["skipped"] = list(dataset.skipped)
    if parts.train.truth is not None:
        rate, matrix = realised(parts.train.truth, parts.train.given, len(dataset.classes))
        header["realised_noise"] = {"rate": rate, "transition": matrix.tolist()}
    return header


def versions() -> dict[str, str]:
    """Of what the numbers of a run depend on."""
    return {
        "labelnoise": labelnoise.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def check_versions(wanted: Mapping[str, str]) -> None:
    """Refuse to train here what others train with something else."""
    for name, version in wanted.items():
        found = versions()[name]
        # What follows the plus says what it was built for, such as +cpu.
        if found.partition("+")[0] != version.partition("+")[0]:
            raise LabelNoiseError(
                f"{name} is {found} here and {version} where the command was given: install the "
                "same on all machines"
            )


def _commit() -> str | None:
    """The commit of the source that runs, when it runs from a checkout of ours."""
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None  # installed, perhaps inside a checkout of the user's
    return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(*words: str) -> str | None:
    try:
        asked = subprocess.run(  # noqa: S603 - no word of it comes from outside
            ["git", "-C", str(Path(__file__).parent), *words],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip()


def samples_of(part: Noisy, tally: Tally) -> dict[str, np.ndarray[Any, Any]]:
    """One entry a training sample, for those who look for wrong labels."""
    state = {name: values.cpu() for name, values in tally.samples.items()}
    seen = state["seen"].clamp(min=1)
    columns = {
        "row": part.rows,
        "given": part.given,
        "seen": state["seen"],
        "selected": state["selected"],
        "probability_last": state["probability_last"],
        "probability_mean": state["probability_sum"] / seen,
        "predicted": state["predicted"],
    }
    if part.truth is not None:
        columns["truth"] = part.truth
    return {name: values.numpy() for name, values in columns.items()}
