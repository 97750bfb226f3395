"""Dataset: what every reader gives back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor

from labelnoise.data.split import Split, stratified_split
from labelnoise.data.stored import Files, Inputs, walk

HASHED = 4096  # rows at a time


class Rows(NamedTuple):
    """Rows to predict.

    Attributes:
        inputs: (rows, ...) as stored.
        labels: (rows,) if they have some, -1 where one is missing.
        ids: What each row is called; without, rows have numbers.
    """

    inputs: Inputs
    labels: Tensor | None
    ids: Sequence[str] = ()


@dataclass(frozen=True)
class Known:
    """What a model knows of the data that it was trained on, to read more of their kind.

    Attributes:
        classes: What each label is called.
        encoding: How their columns became inputs; None for inputs that were stored as such.
        shape: That of an input.
    """

    classes: tuple[str, ...]
    encoding: Mapping[str, Any] | None = None
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """Inputs and labels as they were read.

    Attributes:
        name: What the user asked for.
        inputs: (rows, features) or (rows, channels, height, width); uint8 pixels or float32. In
            memory, or in files that are decoded when needed.
        labels: (rows,) int64, in [0, len(classes)).
        classes: What each label is called.
        test_inputs: The official test part, if there is one.
        test_labels: Its labels.
        flips: The published class-conditional map, true label to confused label.
        verified: Whether the labels are known to be right (a benchmark), so that they may
            serve as the truth even when no noise is planted.
        split: How the rows become a training and a validation part.
        ids: What each row is called, such as a file's name; without, rows have numbers.
        originals: Each row as its owner wrote it, column by column (or all of a text as `text`), to
            show it to a person; without, the inputs themselves are shown.
        encoding: How columns became inputs, as plain JSON, so that new rows are treated alike; None
            where the inputs were stored as such.
        skipped: What could not be read and is therefore no row.
        validation_inputs: The official validation part, if there is one; then all rows train.
        validation_labels: Its labels, which are right.
        truth: (rows,) the true labels of rows whose labels were given by others, where known.
    """

    name: str
    inputs: Inputs
    labels: Tensor
    classes: tuple[str, ...]
    test_inputs: Inputs | None = None
    test_labels: Tensor | None = None
    flips: Mapping[int, int] | None = None
    verified: bool = False
    split: Split = stratified_split
    ids: Sequence[str] = ()
    originals: Sequence[Mapping[str, str]] = ()
    encoding: Mapping[str, Any] | None = None
    skipped: tuple[str, ...] = ()
    validation_inputs: Inputs | None = None
    validation_labels: Tensor | None = None
    truth: Tensor | None = None

    @property
    def known(self) -> Known:
        """What a model that is trained on it knows of it."""
        return Known(self.classes, self.encoding, tuple(self.inputs.shape[1:]))

    @property
    def knows_truth(self) -> bool:
        """Whether the true labels are known even when no noise is planted."""
        return self.verified or self.truth is not None

    @cached_property
    def fingerprint(self) -> Any:
        """A hash of the content so far, to copy and go on with; data sets are hashed only once."""
        state = hashlib.blake2b(digest_size=16)
        parts = (self.inputs, self.labels, self.test_inputs, self.test_labels)
        official = (self.validation_inputs, self.validation_labels, self.truth)
        for values in (*parts, *official):
            if values is not None:
                state.update(f"{values.dtype}{tuple(values.shape)}".encode())
                for chunk in _content(values):
                    state.update(chunk)
        state.update("\0".join(self.classes).encode())
        if self.encoding is not None:  # a column may be renamed, and inputs stay
            state.update(json.dumps(self.encoding, sort_keys=True).encode())
        return state


def _content(values: Inputs) -> Iterator[Any]:
    """The bytes of inputs or labels.

    Files by their pixels, too: where inputs lie does not make another data set. But a million files
    that no one has opened are known by their names.
    """
    if isinstance(values, Files) and values.unseen:
        yield values.fit.encode()
        yield b"\0".join(map(values.names.encoded, values.rows.tolist()))
        return
    for chunk in walk(values, HASHED):
        yield chunk.contiguous().numpy().data
