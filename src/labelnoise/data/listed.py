"""Lists of image files as large data sets come with: one path a line, with a label or without.

A million lines take seconds, and names stay bytes: nobody says what encoding they are in. A path
that leads out of the data set's folder is refused, one that is listed twice counts once, and files
that are not there are found by a look into every folder, not by a look at every file.
"""

from __future__ import annotations

import os
import posixpath
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from labelnoise.data.content import content
from labelnoise.data.images import Fit, Form
from labelnoise.data.stored import Called, Files, Inputs, Names
from labelnoise.errors import LabelNoiseError

MARK = b"\xef\xbb\xbf"  # some editors begin a file of UTF-8 with it
SHOWN = 3  # names in a warning
SOME = 0.01  # of the listed files may lie in folders that are not there


@dataclass(frozen=True)
class Labelled:
    """Files and the label of each.

    Attributes:
        names: Relative to the data set's folder.
        labels: (names,) int64.
    """

    names: list[bytes]
    labels: Tensor

    def __add__(self, other: Labelled) -> Labelled:
        """One after the other."""
        return Labelled(self.names + other.names, torch.cat([self.labels, other.labels]))

    def where(self, keep: Tensor) -> Labelled:
        """Those of a mask."""
        return Labelled(
            [self.names[row] for row in keep.nonzero()[:, 0].tolist()], self.labels[keep]
        )


def lines_of(path: Path) -> list[bytes]:
    """The lines of a text file, without blank ones at its end."""
    lines = content(path).removeprefix(MARK).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def words_of(path: Path) -> tuple[str, ...]:
    """The lines of a file as text, such as names of classes."""
    return tuple(line.decode("utf-8", "backslashreplace").strip() for line in lines_of(path))


def read_paths(
    path: Path, before: bytes = b"", after: bytes = b"", heading: int = 0
) -> list[bytes]:
    """Paths, one a line, each once.

    Args:
        path: The list.
        before: What to put before every path.
        after: What to put after it.
        heading: Lines at the top that are no paths.
    """
    lines = [line.strip() for line in lines_of(path)[heading:]]
    checked = inside(lines, path, heading)
    return once([before + name + after for name in checked], path)


def read_labels(path: Path, classes: int | None, before: bytes = b"") -> dict[bytes, int]:
    """Labels by path, from lines `path label`; without `classes`, labels may be of any size."""
    lines = lines_of(path)
    pairs = [line.rsplit(None, 1) for line in lines]
    found: dict[bytes, int] = {}
    names = inside([pair[0] if pair else b"" for pair in pairs], path)
    for number, (name, pair) in enumerate(zip(names, pairs, strict=True), 1):
        try:
            label = int(pair[1])
        except (ValueError, IndexError):
            raise LabelNoiseError(
                f"{path}, line {number}: a path and a number expected, found "
                f"{shown(lines[number - 1])}"
            ) from None
        if label < 0 or (classes is not None and label >= classes):
            expected = "of 0 or more" if classes is None else f"from 0 to {classes - 1}"
            raise LabelNoiseError(
                f"{path}, line {number}: a label {expected} expected, found {label}"
            )
        found[before + name] = label
    if len(found) < len(lines):
        _warn(f"{path}: {len(lines) - len(found)} lines name a file again; the last one counts")
    return found


def inside(names: Sequence[bytes], path: Path, heading: int = 0) -> list[bytes]:
    """The names, brought into their shortest form; one that leads out of the folder is refused."""
    plain = []
    for number, name in enumerate(names, heading + 1):
        if not name:
            raise LabelNoiseError(f"{path}, line {number}: it is empty, a path is expected")
        if name[0] in b"./" or b"/." in name or b"//" in name or b"\0" in name:
            if name.startswith(b"/") or b".." in name.split(b"/") or b"\0" in name:
                raise LabelNoiseError(
                    f"{path}, line {number}: {shown(name)} leads out of the data set's folder: "
                    "paths in it are relative, without '..'"
                )
            name = posixpath.normpath(name)
        plain.append(name)
    return plain


def once(names: Sequence[bytes], path: Path) -> list[bytes]:
    """Every name once; a warning counts the others."""
    different = list(dict.fromkeys(names))
    if len(different) < len(names):
        seen: set[bytes] = set()
        again = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        _warn(
            f"{path}: {len(names) - len(different)} of {len(names)} lines name a file again, such "
            f"as {shown(again)}; it counts once"
        )
    return different


def join(names: Sequence[bytes], labels: Mapping[bytes, int], path: Path) -> Labelled:
    """Files with their labels; those without one are left out, with a warning."""
    found = np.fromiter((labels.get(name, -1) for name in names), np.int64, len(names))
    has = torch.from_numpy(found) >= 0
    if not has.any():
        raise LabelNoiseError(f"{path}: there is a label for none of its {len(names)} files")
    if not has.all():
        without = [names[row] for row in (~has).nonzero()[:, 0].tolist()]
        _warn(f"{path}: {len(without)} files have no label and are left out: {_some(without)}")
    return Labelled(list(names), torch.from_numpy(found)).where(has)


def present(root: Path, listed: Labelled, origin: str) -> tuple[Labelled, tuple[str, ...]]:
    """What is there of the files, and which are not.

    Files that are missing are left out, and so are those of a folder that nearly none is listed in;
    any other folder that is missing is a data set that was not unpacked.
    """
    folders: dict[bytes, list[int]] = {}
    for row, name in enumerate(listed.names):
        folders.setdefault(name.rpartition(b"/")[0], []).append(row)
    keep = torch.ones(len(listed.names), dtype=torch.bool)
    gone = []
    for folder, rows in folders.items():
        try:
            there = set(os.listdir(os.path.join(os.fsencode(root), folder)))
        except OSError:
            gone.append(folder)
            there = set()
        lost = [row for row in rows if listed.names[row].rpartition(b"/")[2] not in there]
        keep[lost] = False
    count = sum(len(folders[folder]) for folder in gone)
    if count > SOME * len(keep):
        raise LabelNoiseError(
            f"{root} lacks {_counted(len(gone), 'folder')} with {count} of its {len(keep)} listed "
            f"files ({_some(sorted(gone))}): {origin}"
        )
    if keep.all():
        return listed, ()
    lost_names = [listed.names[row] for row in (~keep).nonzero()[:, 0].tolist()]
    if not keep.any():
        raise LabelNoiseError(
            f"{root}: none of the {len(keep)} listed files is there ({_some(lost_names)}): {origin}"
        )
    _warn(
        f"{root}: {len(lost_names)} of {len(keep)} listed files are not there and are left out: "
        f"{_some(lost_names)}"
    )
    return listed.where(keep), tuple(map(plain_text, lost_names))


def files_of(root: Path, parts: Sequence[Labelled], form: Form, fit: Fit) -> list[Inputs]:
    """Images that are decoded when they are needed, of which none was opened yet, part by part."""
    names = Names([name for part in parts for name in part.names])
    files = Files(str(root), names, torch.arange(len(names)), form, fit=fit, unseen=True)
    ends = np.cumsum([len(part.names) for part in parts]).tolist()
    # Parts of one folder know of each other's broken files, and warn but once.
    return [
        cast(Inputs, files[end - len(part.names) : end])
        for part, end in zip(parts, ends, strict=True)
    ]


def ids_of(inputs: Inputs) -> Sequence[str]:
    """What the rows of images in files are called."""
    files = cast(Files, inputs)
    return Called(files.names, files.rows)


def plain_text(name: bytes) -> str:
    """A name as text that can be written anywhere."""
    return name.decode("utf-8", "backslashreplace")


def shown(name: bytes) -> str:
    """A name, quoted."""
    return repr(plain_text(name))


def _some(names: Iterable[bytes]) -> str:
    first = list(names)
    return ", ".join(map(shown, first[:SHOWN])) + ", ..." * (len(first) > SHOWN)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
