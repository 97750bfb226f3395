"""A copy of a folder of class folders, by links or copies, each file in its new class."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

from labelnoise.audit.writers.correction import Correction
from labelnoise.data.tree import Tree, files_below, text
from labelnoise.errors import LabelNoiseError


def write_folder(correction: Correction, out: Path) -> None:
    """Make the new tree; what was not audited, such as a test part, comes along as it is."""
    root = correction.path
    rows = {correction.name(row): row for row in range(len(correction.before))}
    bad = {correction.name(row) for row in correction.bad}
    stay = [name for name in files_below(root) if text(name) not in bad]
    if lost := sorted(rows.keys() - bad - set(map(text, stay))):
        raise LabelNoiseError(f"{root} has no file {lost[0]!r} any more: audit it again")
    place_of_class = 1 if Tree.of(root).split else 0
    moved = [name for name in stay if rows.get(text(name)) in correction.changed]
    taken = set(stay) - set(moved)
    out.mkdir()
    for name in sorted(taken):
        _bring(root / name, out / name, link=correction.link)
    for name in moved:
        row = rows[text(name)]
        new = _moved(name, place_of_class, correction.changed[row])
        place = _free(new, taken, correction.before[row])
        taken.add(place)
        _bring(root / name, out / place, link=correction.link)


def _moved(name: str, place: int, new: str) -> str:
    """The name in another class folder, which is the one at this place of the path."""
    if new.startswith(".") or new.strip() != new or any(sign in new for sign in "/\\\0"):
        raise LabelNoiseError(f"{new!r} cannot be the name of a class folder: choose another")
    parts = list(PurePosixPath(name).parts)
    parts[place] = new
    return str(PurePosixPath(*parts))


def _free(name: str, taken: set[str], old: str) -> str:
    """The name, or one that tells where the file came from if the new folder has such a file."""
    path = PurePosixPath(name)
    place, number = name, 1
    while place in taken:
        more = "" if number == 1 else f"-{number}"
        place = str(path.with_name(f"{path.stem}-from-{old}{more}{path.suffix}"))
        number += 1
    return place


def _bring(file: Path, place: Path, *, link: bool) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if file.is_symlink() and not file.exists():  # it leads nowhere, as it did
        os.symlink(os.readlink(file), place)
        return
    if not link:
        shutil.copy2(file, place)
        return
    actual = file.resolve()
    try:
        os.link(actual, place)
    except OSError:  # another disk, or one without hard links
        os.symlink(actual, place)
