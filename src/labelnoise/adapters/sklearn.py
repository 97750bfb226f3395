"""RobustClassifier: every method of the library as a scikit-learn estimator."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from labelnoise.adapters.plan import Plan, new_method
from labelnoise.audit.findings import COLUMNS
from labelnoise.audit.recorded import Recorded
from labelnoise.data.scale import SCALES
from labelnoise.data.train import Train
from labelnoise.engine import evaluate, fit
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.estimate import ESTIMATOR, enough_epochs
from labelnoise.experiment.run import device_named
from labelnoise.experiment.spec import Training, preset_training
from labelnoise.method import Method
from labelnoise.problem import Problem
from labelnoise.seeds import stream

PRESET = "recommended"
STEPS = 500  # at least; fifty epochs of a small table teach a network too little
KINDS = (np.float32, np.uint8)  # how inputs are stored: pixels stay bytes, all else become floats
LEARNED = ("_plan", "_scaling", "_rows")  # beside what is called name_, as scikit-learn has it
GREY = 3  # dimensions of an array of images that have no channels


class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from labels that are partly wrong, and tells which ones are.

    Inputs are numbers: (rows, features), (rows, height, width) or (rows, channels, height, width).

    Args:
        method: A method's name (`labelnoise list methods`) or a `Method` of your own; it is copied.
        module: The network: a net's name, `package.module:name`, a function or a module's class
            that is called with the shape of one input and the number of classes, or a module, which
            is copied and trained on from its weights; by default what suits the shape.
        method_params: Fields of a method that is given by its name.
        noise_rate: For a method that needs it, the fraction of wrong labels, or `"auto"`: what one
            more training, of BARE, estimates.
        epochs: How often every row is seen; by default 50 times, of small data as often as makes
            500 steps.
        batch_size: Rows of a step.
        lr: Learning rate.
        weight_decay: Of the optimiser.
        optimiser: `"adam"`, `"adamw"` or `"sgd"`.
        schedule: `"cosine"`, `"plateau"` or `"constant"`.
        scale: `"standardised"`, `"unit"` or `"raw"`. What is `None` is as the preset `recommended`.
        random_state: Initialisation and order of the rows, as everywhere in scikit-learn.
        device: `auto`, `cpu`, `cuda`, `mps`.

    Attributes:
        classes_: What each column of `predict_proba` is called.
        label_quality_: (rows,) how likely each label given to `fit` is right; low is suspect.
        label_issues_: (rows,) boolean, whether it is taken for wrong.
        noise_rate_: Estimated fraction of wrong labels.
        transition_matrix_: (classes, classes) estimated P(given = column, true = row).
        findings_: All of it, as `Recorder.issues` gives it.
        method_: The method, trained.
    """

    def __init__(
        self,
        method: str | Method = "bare",
        module: str | nn.Module | Callable[..., nn.Module] | None = None,
        *,
        method_params: Mapping[str, Any] | None = None,
        noise_rate: float | str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        optimiser: str | None = None,
        schedule: str | None = None,
        scale: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
    ) -> None:
        self.method = method
        self.module = module
        self.method_params = method_params
        self.noise_rate = noise_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.optimiser = optimiser
        self.schedule = schedule
        self.scale = scale
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, trusted: Any = None) -> Self:  # noqa: N803
        """Train on all rows.

        Args:
            X: Inputs, an array or a data frame.
            y: (rows,) labels as given, of any kind.
            trusted: (rows,) boolean, for a method that needs it: the labels that are verified.
        """
        self._forget()
        rows = _row_names(X, y)
        inputs, given = validate_data(self, X, y, dtype=KINDS, allow_nd=True)
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        if len(self.classes_) < 2:
            raise LabelNoiseError("labels of at least two classes are needed, y has 1 class")
        training = self._training(len(labels))
        train = self._train(inputs, labels, training)
        self._plan = Plan(
            method=new_method(self.method, self.method_params, PRESET),
            module=self.module,
            recipe=training.recipe(),
            rows=len(labels),
            shape=tuple(train.inputs.shape[1:]),
            classes=len(self.classes_),
        )
        problem = Problem(
            labels=train.labels,
            num_classes=self._plan.classes,
            new_learner=self._plan.learners(train.seed, train.labels.device),
            generator=stream(train.seed, "method"),
            noise_rate=self._told_rate(X, y),
            trusted=self._verified(train, trusted),
        )
        recorded = Recorded(copy.deepcopy(self._plan.method))
        fit(recorded, problem, train, epochs=training.epochs)
        self.method_, self._scaling, self._rows = recorded.method, train.scaling, rows
        self._keep(recorded)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Class probabilities: (rows, classes)."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=KINDS, allow_nd=True, reset=False)
        stored = _stored(inputs).to(self._scaling.shift.device)
        if tuple(stored.shape[1:]) != self._plan.shape:
            raise LabelNoiseError(
                f"X has inputs of shape {tuple(stored.shape[1:])}, RobustClassifier was fitted on "
                f"inputs of shape {self._plan.shape}"
            )
        log_probs = evaluate(self.method_.log_probs, stored, self._scaling)
        probs: NDArray[np.float32] = log_probs.exp().cpu().numpy()
        return probs

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most likely class of every row."""
        likely = self.predict_proba(X).argmax(axis=1)
        names: NDArray[Any] = self.classes_[likely]
        return names

    def find_label_issues(self) -> Any:
        """What was found of every label given to `fit`, row by row, in cleanlab's columns.

        Returns:
            A pandas data frame with the index of X or y, where they have one; without pandas a
            dictionary of arrays. Columns: `is_label_issue`, `label_quality` (low is suspect),
            `given_label`, `predicted_label`, `suggestion_confidence`, `selected_fraction`.
        """
        check_is_fitted(self)
        found = self.findings_
        values = (
            found.issue,
            found.quality,
            self.classes_[found.given],
            self.classes_[found.predicted],
            found.confidence,
            found.selected,
        )
        columns = dict(zip(COLUMNS[1:], values, strict=True))  # rows themselves say which they are
        try:
            import pandas as pd
        except ImportError:
            return columns
        return pd.DataFrame(columns, index=self._rows)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know; images may be given, too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """A training that failed leaves `classes_` behind, but no method."""
        return hasattr(self, "method_")

    def __getstate__(self) -> dict[str, Any]:
        """All of it, on the CPU; of the trained method its state, as a run's checkpoint has it."""
        state = dict(super().__getstate__())
        if "method_" in state:
            buffer = io.BytesIO()
            torch.save(state["method_"].state_dict(), buffer)
            state["method_"] = buffer.getvalue()
            state["_scaling"] = state["_scaling"].to(torch.device("cpu"))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go back to it."""
        super().__setstate__(state)
        if "method_" in state:
            content = io.BytesIO(state["method_"])
            trained = torch.load(content, map_location="cpu", weights_only=True)
            self.method_ = self._plan.restored(trained)

    def _forget(self) -> None:
        """What an earlier training has left: should this one fail, nothing is half old."""
        for name in list(vars(self)):
            if name.endswith("_") or name in LEARNED:
                delattr(self, name)

    def _training(self, rows: int) -> Training:
        """How to train on so many rows."""
        names = (name for name in Training.model_fields if hasattr(self, name))
        told = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        training = preset_training(PRESET, told)
        if self.epochs is not None:
            return training
        enough = enough_epochs(rows, training.batch_size, training.epochs, STEPS)
        return training.model_copy(update={"epochs": enough})

    def _train(self, inputs: NDArray[Any], labels: NDArray[Any], training: Training) -> Train:
        """All rows, on the device that they are trained on."""
        device = device_named(self.device)
        stored = _stored(inputs).to(device)
        return Train(
            inputs=stored,
            labels=torch.as_tensor(labels, dtype=torch.long, device=device),
            scaling=SCALES[training.scale](stored).to(device),
            batch_size=training.batch_size,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _told_rate(self, inputs: Any, labels: Any) -> float | None:
        """The noise rate that the method is told, if it needs one."""
        method, rate = self._plan.method, self.noise_rate
        kind = type(method).__name__
        if not hasattr(method, "noise_rate"):
            if rate is not None:
                raise LabelNoiseError(f"{kind} takes no noise rate: leave noise_rate out")
            return None
        if method.noise_rate is None and rate is None:
            raise LabelNoiseError(
                f'{kind} needs the noise rate: pass noise_rate=0.2, or noise_rate="auto" to '
                "estimate it"
            )
        if rate == "auto":
            scout = clone(self).set_params(method=ESTIMATOR, method_params=None, noise_rate=None)
            found: float = scout.fit(inputs, labels).noise_rate_
            return found
        if isinstance(rate, str):
            raise LabelNoiseError(f'noise_rate is a number or "auto", got {rate!r}')
        return rate

    def _verified(self, train: Train, trusted: Any) -> Train | None:
        """The rows of `train` whose labels are right for sure, if the method needs such."""
        method = self._plan.method
        kind = type(method).__name__
        if not method.needs_trusted:
            if trusted is not None:
                raise LabelNoiseError(f"{kind} takes no trusted rows: leave trusted out")
            return None
        mask = None if trusted is None else np.asarray(trusted)
        if mask is None or mask.dtype != bool or mask.shape != (len(train),) or not mask.any():
            raise LabelNoiseError(
                f"{kind} needs trusted rows: pass fit(X, y, trusted=mask), a boolean for each of "
                f"the {len(train)} rows, true where the label is verified"
            )
        rows = torch.as_tensor(mask, device=train.labels.device)
        return replace(train, inputs=train.inputs[rows], labels=train.labels[rows])

    def _keep(self, recorded: Recorded) -> None:
        """What the record says, under the names that users know."""
        found = recorded.recorder.issues()
        if len(found.given) != self._plan.rows:
            raise LabelNoiseError(
                f"{type(recorded.method).__name__} reported the probabilities of "
                f"{len(found.given)} rows of {self._plan.rows}: its steps must report all"
            )
        self.findings_ = replace(found, classes=tuple(map(str, self.classes_)))
        self.label_quality_ = found.quality
        self.label_issues_ = found.issue
        self.noise_rate_ = found.noise_rate
        self.transition_matrix_ = found.transition


def _stored(inputs: NDArray[Any]) -> Tensor:
    """An array as a data set stores it; it is never written to, but torch warns that it might."""
    shared = np.require(inputs, requirements=["C", "W"])
    tensor = torch.from_numpy(shared)
    return tensor.unsqueeze(1) if tensor.ndim == GREY else tensor


def _row_names(inputs: Any, labels: Any) -> Any:
    """The index of a data frame, or of a series of labels, if either is one."""
    return next((each.index for each in (inputs, labels) if hasattr(each, "iloc")), None)
