"""Layout: which files and folders a data set consists of, and exactly which of them are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labelnoise.data.directory import VARIABLE, data_directory
from labelnoise.errors import LabelNoiseError


@dataclass(frozen=True)
class Layout:
    """How a data set lies on disk.

    Attributes:
        name: What users call the data set.
        places: Folders under the data directory that it may lie in; the first is the official one.
        files: Files that it needs.
        folders: Folders that it needs.
        origin: How to come by it, as an order.
        beside: Folders in which its files may lie instead.
    """

    name: str
    places: tuple[str, ...]
    files: tuple[str, ...]
    folders: tuple[str, ...]
    origin: str
    beside: tuple[str, ...] = ()

    def find(self, data_dir: Path | None = None) -> Found:
        """Where everything is; if anything is missing, an error that lists all of it."""
        directory = data_directory(data_dir)
        root = next(
            (directory / place for place in self.places if (directory / place).is_dir()), None
        )
        if root is None:
            expected = " or ".join(str(directory / place) for place in self.places)
            wanted = ", ".join((*self.files, *(f"{folder}/" for folder in self.folders)))
            raise LabelNoiseError(
                f"{self.name}: no folder {expected} with {wanted}: {self.origin}, "
                f"or set {VARIABLE} to the folder that holds it"
            )
        files = {name: self._file(root, name) for name in self.files}
        missing = [name for name, path in files.items() if path is None]
        missing += [f"{folder}/" for folder in self.folders if not (root / folder).is_dir()]
        if missing:
            also = "".join(f" (and {folder}/)" for folder in self.beside)
            raise LabelNoiseError(
                f"{self.name}: {root}{also} lacks {', '.join(missing)}: {self.origin}"
            )
        return Found(root, {name: path for name, path in files.items() if path is not None})

    def _file(self, root: Path, name: str) -> Path | None:
        places = (root / name, *(root / folder / name for folder in self.beside))
        return next((path for path in places if path.is_file()), None)


def find_all(data_dir: Path | None, *layouts: Layout) -> list[Found]:
    """Where everything is of what is needed together; the error lists what is missing of any."""
    found, missing = [], []
    for layout in layouts:
        try:
            found.append(layout.find(data_dir))
        except LabelNoiseError as error:
            missing.append(str(error))
    if missing:
        raise LabelNoiseError("; ".join(missing))
    return found


@dataclass(frozen=True)
class Found:
    """A data set that is complete.

    Attributes:
        root: Its folder.
        files: Its files, by their names in the layout.
    """

    root: Path
    files: Mapping[str, Path]
