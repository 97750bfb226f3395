"""One's own images: a folder with a sub-folder for each class, or `train` and `test` of that kind.

`DATA/cat/*.jpg`: what lies deeper belongs to the class, too. If `DATA` has a folder `train` of
class folders and beside it at most `test` or `val`, the first is the data and the second the test
part. Rows are in the order of the names, so that every machine sees the same.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from labelnoise.data.collect import collect, form_of, tell
from labelnoise.data.columns import Columns
from labelnoise.data.content import errors_naming
from labelnoise.data.dataset import Dataset, Known, Rows
from labelnoise.data.tree import TRAIN, Group, Tree, text
from labelnoise.errors import LabelNoiseError

LAYOUT = "put the images of each class into a sub-folder of its own, as in DATA/cat/1.jpg"


def read_folder(path: Path, columns: Columns | None = None, memory: int | None = None) -> Dataset:
    """Read a folder of class folders.

    Args:
        path: The folder.
        columns: A folder has none.
        memory: Bytes of pixels that may lie in memory, see `collect`.
    """
    (columns or Columns()).refuse(str(path))
    tree = Tree.of(path)
    data, test = tree.parts()
    tree.warn()
    names, folders = _listed(data)
    test_names, test_folders = _listed(test)
    if not names:
        raise LabelNoiseError(f"{path}: no images in sub-folders: {LAYOUT}")
    with errors_naming(path):
        found = collect(str(path), [*names, *test_names], memory=memory)
    tell(path, found)
    rows, test_rows = found.rows[found.rows < len(names)], found.rows[found.rows >= len(names)]
    readable = [folders[row] for row in rows.tolist()]
    classes = _classes(path, data, readable)
    place = {name: number for number, name in enumerate(classes)}
    tested = [test_folders[row - len(names)] for row in test_rows.tolist()]
    if stranger := next((name for name in tested if name not in place), None):
        raise LabelNoiseError(
            f"{path}: the test part has the class {text(stranger)!r}, which {TRAIN} has not"
        )
    return Dataset(
        name=str(path),
        inputs=found.inputs[: len(rows)],
        labels=torch.tensor([place[name] for name in readable]),
        classes=tuple(map(text, classes)),
        test_inputs=found.inputs[len(rows) :] if tested else None,
        test_labels=torch.tensor([place[name] for name in tested]) if tested else None,
        ids=tuple(text(names[row]) for row in rows.tolist()),
        skipped=tuple(map(text, found.faults)),
    )


def folder_rows(
    path: Path, known: Known, columns: Columns | None = None, memory: int | None = None
) -> Rows:
    """Read images for a model, labelled by their folders if these are its classes.

    Of a folder with a test part, that part.
    """
    (columns or Columns()).refuse(str(path))
    form = form_of(known, str(path))
    tree = Tree.of(path)
    data, test = tree.parts()
    names, folders = _listed(test or data)
    place = {name: number for number, name in enumerate(known.classes)}
    labelled = bool(names) and not tree.beside and all(text(name) in place for name in folders)
    if not labelled:  # then folders mean nothing
        names = [name for group in (tree.folders, {"": tree.beside}) for name in _listed(group)[0]]
    if not names:
        raise LabelNoiseError(f"{path}: there are no images in it")
    with errors_naming(path):
        found = collect(str(path), names, form, memory)
    tell(path, found)
    kept = found.rows.tolist()
    labels = torch.tensor([place[text(folders[row])] for row in kept]) if labelled else None
    return Rows(found.inputs, labels, tuple(text(names[row]) for row in kept))


def _listed(group: Group) -> tuple[list[str], list[str]]:
    """All images of a group, and the folder of each."""
    pairs = [(name, folder) for folder, files in group.items() for name in files]
    return [name for name, _ in pairs], [folder for _, folder in pairs]


def _classes(path: Path, data: Group, readable: Sequence[str]) -> list[str]:
    """The folders with images that can be read, at least two of them."""
    counts = Counter(readable)
    for name in data:
        if not counts[name]:
            warnings.warn(f"{path}: {text(name)!r} has no images: it is no class", stacklevel=3)
    classes = sorted(counts)
    if len(classes) < 2:
        raise LabelNoiseError(
            f"{path}: only one class folder, {text(classes[0])!r}, and two are needed: {LAYOUT}"
        )
    return classes
