"""Tree: the image files below a folder, by sub-folder.

Hidden files are passed over, other files than images counted. Folders and files may be links; one
that leads back to where it lies is not followed. The order is that of the names.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labelnoise.data.images import SUFFIXES
from labelnoise.errors import LabelNoiseError

TRAIN = "train"
TESTS = ("test", "val", "valid", "validation")  # the first that there is becomes the test part
UNPACKED = "__MACOSX"  # what zip files from a Mac leave behind
SHOWN = 5  # kinds of other files that a warning names

Group = Mapping[str, Sequence[str]]
"""Class folders, and the images in each."""


@dataclass(frozen=True)
class Tree:
    """What lies in a folder.

    Attributes:
        path: The folder.
        folders: Its sub-folders, and the images below each, by their names relative to `path`.
        beside: Images that lie in no sub-folder.
        others: How many files of other kinds there are, by suffix.
    """

    path: Path
    folders: Group
    beside: Sequence[str]
    others: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, path: Path) -> Tree:
        """Look at every name below a folder, not into the files."""
        others: Counter[str] = Counter()
        try:
            folders = {
                entry.name: sorted(_images(entry, {_identity(str(path))}, others))
                for entry in _visible(str(path))
                if os.path.isdir(entry.path)
            }
            files = [entry.name for entry in _visible(str(path)) if not os.path.isdir(entry.path)]
        except OSError as error:
            raise LabelNoiseError(f"{error.filename or path}: {error.strerror or error}") from error
        others.update(_suffix(name) for name in files if _suffix(name) not in SUFFIXES)
        return cls(path, folders, [name for name in files if _suffix(name) in SUFFIXES], others)

    @property
    def split(self) -> bool:
        """Whether there is a folder `train` of class folders, and at most a test part beside it."""
        filled = {name for name, files in self.folders.items() if files}
        return TRAIN in filled and filled <= {TRAIN, *TESTS} and self._has_classes(TRAIN)

    def parts(self) -> tuple[Group, Group]:
        """The class folders of the data, and those of the test part, which there may not be."""
        if not self.split:
            return self.folders, {}
        tests = [name for name in TESTS if self.folders.get(name)]
        test = next(filter(self._has_classes, tests), None)
        if aside := [name for name in tests if name != test]:
            warnings.warn(f"{self.path}: {' and '.join(aside)} is left aside", stacklevel=3)
        return self._classes_in(TRAIN), {} if test is None else self._classes_in(test)

    def warn(self) -> None:
        """Say what was passed over."""
        if self.beside:
            warnings.warn(
                f"{self.path}: {len(self.beside)} images lie in no class folder and are left out, "
                f"such as {text(self.beside[0])!r}",
                stacklevel=3,
            )
        if self.others:
            kinds = ", ".join(
                f"{count} {text(suffix) or 'without a suffix'}"
                for suffix, count in sorted(self.others.items())[:SHOWN]
            )
            total = sum(self.others.values())
            warnings.warn(f"{self.path}: {total} files are no images ({kinds})", stacklevel=3)

    def _has_classes(self, part: str) -> bool:
        """Whether all images of a part lie in folders of their own."""
        return all(name.count("/") > 1 for name in self.folders[part])

    def _classes_in(self, part: str) -> Group:
        groups: dict[str, list[str]] = {
            entry.name: []
            for entry in _visible(os.path.join(self.path, part))
            if os.path.isdir(entry.path)
        }
        for name in self.folders[part]:
            groups[name.split("/")[1]].append(name)
        return groups


def files_below(path: Path) -> list[str]:
    """All files below a folder, hidden ones too, relative to it."""
    return [name.removeprefix("/") for name in _below(str(path), "", set(), _entries)]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _visible(folder: str) -> list[os.DirEntry[str]]:
    shown = _entries(folder)
    return [e for e in shown if not e.name.startswith(".") and e.name != UNPACKED]


def _images(
    folder: os.DirEntry[str], above: set[tuple[int, int]], others: Counter[str]
) -> Iterator[str]:
    """The images below a folder; other files are counted."""
    for name in _below(folder.path, folder.name, above, _visible):
        if _suffix(name) in SUFFIXES:
            yield name
        else:
            others[_suffix(name)] += 1


def _below(
    folder: str,
    name: str,
    above: set[tuple[int, int]],
    look: Callable[[str], list[os.DirEntry[str]]],
) -> Iterator[str]:
    """The files below a folder; `above` are the folders around it, against links in a circle."""
    here = _identity(folder)
    if here in above:
        return
    for entry in look(folder):
        inner = f"{name}/{entry.name}"
        if os.path.isdir(entry.path):
            yield from _below(entry.path, inner, above | {here}, look)
        else:
            yield inner


def _identity(folder: str) -> tuple[int, int]:
    found = os.stat(folder)
    return found.st_dev, found.st_ino


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def text(name: str) -> str:
    """A file's name as text that can be written anywhere; bytes that are none are spelt out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
