"""Predictor: a finished run, put to use on new inputs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from labelnoise.data import DATASETS, FORMATS, read
from labelnoise.data.npz import read_rows
from labelnoise.data.scale import Scaling
from labelnoise.data.stored import Files, Inputs
from labelnoise.data.train import Train
from labelnoise.engine import evaluate
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.learners import new_learners
from labelnoise.experiment.spec import Spec
from labelnoise.problem import Problem
from labelnoise.record.run import Run
from labelnoise.seeds import stream


class Predictor:
    """The trained method of a run.

    Attributes:
        classes: What each label is called.
    """

    def __init__(self, run: Run | str | Path) -> None:
        run = run if isinstance(run, Run) else Run(run)
        if not run.done:
            raise LabelNoiseError(f"{run.path} is not finished: start its command again first")
        header, spec = run.header, Spec(**run.header["spec"])
        self.classes: tuple[str, ...] = tuple(header["classes"])
        self._shape = tuple(header["shape"])
        self._bytes = header["dtype"] == str(torch.uint8)
        self._scaling = Scaling(
            torch.tensor(header["scaling"]["shift"]), torch.tensor(header["scaling"]["factor"])
        )
        self._method = spec.method_instance()
        self._method.setup(
            Problem(
                labels=torch.zeros(header["rows"]["train"], dtype=torch.long),
                num_classes=len(self.classes),
                new_learner=new_learners(spec, self._shape, len(self.classes)),
                generator=stream(spec.seed, "method"),
                noise_rate=0.0,  # neither it nor trusted samples matter to a prediction
                trusted=Train(
                    torch.zeros(1, *self._shape),
                    torch.zeros(1, dtype=torch.long),
                    self._scaling,
                    1,
                    0,
                ),
            )
        )
        self._method.load_state_dict(run.checkpoint()["method"])

    def probs(self, inputs: Inputs) -> Tensor:
        """Class probabilities of inputs as stored in the data: (rows, ...) -> (rows, classes)."""
        inputs = inputs if isinstance(inputs, Files) else torch.as_tensor(inputs)
        if (inputs.dtype == torch.uint8) is not self._bytes:
            trained, these = ("bytes", "not") if self._bytes else ("numbers", "bytes")
            raise LabelNoiseError(f"the run was trained on {trained}, these inputs are {these}")
        if tuple(inputs.shape[1:]) != self._shape:
            raise LabelNoiseError(
                f"the run was trained on inputs of shape {self._shape}, "
                f"these have {tuple(inputs.shape[1:])}"
            )
        return evaluate(self._method.log_probs, inputs, self._scaling).exp()


def inputs_of(
    data: str, classes: tuple[str, ...], data_dir: Path | None = None
) -> tuple[Inputs, Tensor | None]:
    """What to predict: the rows of a file, labelled or not, or a data set's test part.

    A data set without a test part gives all its rows.
    """
    path = Path(data).expanduser()
    if data not in DATASETS and path.is_file() and path.suffix.lower() in FORMATS:
        return read_rows(path, classes)
    dataset = read(data, data_dir)
    if dataset.classes != classes:
        raise LabelNoiseError(
            f"the run knows the classes {', '.join(classes[:5])}{', ...' * (len(classes) > 5)}; "
            f"{data} has others"
        )
    if dataset.test_inputs is None:
        return dataset.inputs, dataset.labels
    return dataset.test_inputs, dataset.test_labels
