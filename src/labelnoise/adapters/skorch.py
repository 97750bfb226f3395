"""LabelAudit for skorch: which labels are wrong, from the training that runs anyway.

`BARELoss` needs no adapter: it is a `criterion`. skorch knows it not, so a classifier must be told
how to make probabilities of logits: `predict_nonlinearity=nn.Softmax(dim=-1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, default_collate

from labelnoise.audit.findings import Findings
from labelnoise.audit.recorder import Recorder
from labelnoise.errors import LabelNoiseError

try:
    from skorch import NeuralNet, NeuralNetClassifier
    from skorch.callbacks import Callback
    from skorch.dataset import unpack_data
except ImportError as error:
    raise LabelNoiseError("this needs skorch: pip install 'labelnoise[skorch]'") from error


class LabelAudit(Callback):  # type: ignore[misc]
    """Records every training step, whatever its loss.

        audit = LabelAudit()
        net = NeuralNetClassifier(
            Module, criterion=BARELoss, iterator_train=NumberedLoader, callbacks=[audit]
        )
        net.fit(X, y)
        audit.issues()

    A sample is called by its row in what `fit` was given. Rows that skorch holds out for validation
    are not trained on and therefore not in it: `train_split=None` audits all.

    Args:
        classes: What each label is called.

    Attributes:
        recorder_: The record of the last `fit`, and of every `partial_fit` since.
    """

    def __init__(self, classes: Sequence[str] | None = None) -> None:
        self.classes = classes

    def initialize(self) -> LabelAudit:
        """Begin anew, as skorch does with every `fit`."""
        self.recorder_ = Recorder(classes=self.classes)
        return self

    def issues(self) -> Findings:
        """What was found so far."""
        if not hasattr(self, "recorder_"):
            raise LabelNoiseError("nothing was recorded yet: call fit first")
        return self.recorder_.issues()

    def on_batch_end(
        self,
        net: NeuralNet,
        batch: Any = None,
        training: bool | None = None,
        y_pred: Any = None,
        **rest: Any,
    ) -> None:
        """Record a step, unless it is one of the validation."""
        if not training:
            return
        if not isinstance(batch, Numbered):
            raise LabelNoiseError(
                "LabelAudit does not know which rows a batch has: pass "
                "iterator_train=NumberedLoader to the net"
            )
        _, labels = unpack_data(batch)
        self.recorder_.update(_logits(net, y_pred), labels, batch.rows)


def _logits(net: NeuralNet, predicted: Any) -> Tensor:
    """Scores before softmax; by skorch's convention a module may give probabilities."""
    first: Tensor = predicted[0] if isinstance(predicted, tuple) else predicted
    if isinstance(net, NeuralNetClassifier) and isinstance(net.criterion_, nn.NLLLoss):
        return torch.log(first.detach() + torch.finfo(first.dtype).eps)  # as get_loss does
    return first


class Numbered(list[Any]):
    """A batch as a loader makes it, (inputs, labels), that also knows its rows."""

    rows: list[int]


class NumberedLoader(DataLoader[Any]):
    """A `DataLoader` for `iterator_train` whose batches know their rows; with workers too."""

    def __init__(
        self,
        dataset: Dataset[Any],
        collate_fn: Callable[[list[Any]], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            _WithRows(dataset),
            collate_fn=_Collate(collate_fn or default_collate),
            **options,
        )


class _WithRows(Dataset[tuple[int, Any]]):
    """Every sample with its row in the whole data set, also where a part of it is trained on."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset: Any = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> tuple[int, Any]:
        row, part = place, self.dataset
        while isinstance(part, Subset):
            row, part = part.indices[row], part.dataset
        return int(row), self.dataset[place]


class _Collate:
    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[tuple[int, Any]]) -> Numbered:
        batch = Numbered(self.collate([sample for _, sample in samples]))
        batch.rows = [row for row, _ in samples]
        return batch
