"""Predictor: a finished run, put to use on new inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelnoise.data import Columns, Known, base_of, is_own, read, read_rows
from labelnoise.data.dataset import Rows
from labelnoise.data.scale import Scaling, raw
from labelnoise.data.stored import Files, Inputs
from labelnoise.data.train import Train
from labelnoise.engine import evaluate
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.learners import new_learners
from labelnoise.experiment.spec import Spec
from labelnoise.learner import Learner
from labelnoise.method import Method
from labelnoise.problem import Problem
from labelnoise.record.run import Run
from labelnoise.seeds import stream


class Predictor:
    """The trained method of a run.

    Attributes:
        classes: What each label is called.
        known: What it knows of its data, to read more of their kind.
    """

    def __init__(self, run: Run | str | Path) -> None:
        run = run if isinstance(run, Run) else Run(run)
        if not run.done:
            raise LabelNoiseError(f"{run.path} is not finished: start its command again first")
        header, spec = run.header, Spec(**run.header["spec"])
        self.classes: tuple[str, ...] = tuple(header["classes"])
        self._shape = tuple(header["shape"])
        self.known = Known(self.classes, header.get("encoding"), self._shape)
        self._bytes = header["dtype"] == str(torch.uint8)
        self._scaling = Scaling(
            torch.tensor(header["scaling"]["shift"]),
            torch.tensor(header["scaling"]["factor"]),
            spec.training.crop,
        )
        self._method = restored(
            spec.method_instance(),
            run.checkpoint()["method"],
            new_learners(spec, self._shape, len(self.classes)),
            header["rows"]["train"],
            spec.training.sees(self._shape),
            len(self.classes),
        )

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


def restored(
    method: Method,
    state: dict[str, Any],
    new_learner: Callable[[], Learner],
    rows: int,
    shape: tuple[int, ...],
    num_classes: int,
) -> Method:
    """`method`, set up without its data and brought back to a state: enough to predict with.

    Args:
        method: As it was before its training.
        state: Its `state_dict` after the training.
        new_learner: Makes networks like those that were trained.
        rows: How many samples it was trained on.
        shape: Of one input.
        num_classes: How many classes there are.
    """
    one = torch.zeros(1, *shape)
    method.setup(
        Problem(
            labels=torch.zeros(rows, dtype=torch.long),
            num_classes=num_classes,
            new_learner=new_learner,
            generator=stream(0, "method"),  # its state is restored, too
            noise_rate=0.0,  # neither it nor trusted samples matter to a prediction
            trusted=Train(one, torch.zeros(1, dtype=torch.long), raw(one), 1, 0),
        )
    )
    method.load_state_dict(state)
    return method


def inputs_of(
    data: str, known: Known, data_dir: Path | None = None, columns: Columns | None = None
) -> Rows:
    """What to predict: the rows of a file or folder, labelled or not, or a data set's test part.

    A data set without a test part gives all its rows.
    """
    if is_own(data):
        return read_rows(Path(data).expanduser(), known, columns)
    dataset = read(data, data_dir, columns)
    classes = known.classes
    if dataset.classes != classes:
        raise LabelNoiseError(
            f"the run knows the classes {', '.join(classes[:5])}{', ...' * (len(classes) > 5)}; "
            f"{data} has others"
        )
    if dataset.encoding != known.encoding:
        raise LabelNoiseError(f"{data} is encoded by itself: give {base_of(data)} to predict")
    if dataset.test_inputs is None:
        return Rows(dataset.inputs, dataset.labels, dataset.ids)
    return Rows(dataset.test_inputs, dataset.test_labels)
