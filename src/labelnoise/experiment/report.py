"""Report: all runs in a folder as one HTML page that needs no network.

The page is `report.html` with one block of JSON in it. Every text and every number of a table is
made here; the script of the page sorts, filters and draws.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import labelnoise
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.table import changed_settings, named, percent
from labelnoise.record.page import write_page
from labelnoise.record.run import HEADER, PACKED, Run

Json = dict[str, Any]
Line = dict[str, str]  # of a table, by heading
Where = tuple[str, ...]  # a data set, its digest and its noise
How = tuple[tuple[str, str], ...]  # what was asked of method and training
Item = TypeVar("Item")
Key = TypeVar("Key")

METRICS = {  # one chart each: its title and unit
    "test_accuracy": ("Test accuracy", "percent"),
    "label_precision": ("Label precision", "percent"),
    "label_recall": ("Label recall", "percent"),
    "selected_fraction": ("Fraction selected", "percent"),
    "train_loss": ("Training loss", ""),
}
FRACTIONS = {  # one column each, in both tables
    "test_accuracy": "test accuracy",
    "test_accuracy_mean": "mean of networks",
    "test_accuracy_last10": "last 10",
    "test_accuracy_best": "best",
    "label_precision": "label precision",
    "label_recall": "label recall",
    "selected_fraction": "fraction selected",
}
RUN_WORDS = ("method", "data set", "noise")
RUN_NUMBERS = ("wrong labels", "epochs", "seed", "data seed", *FRACTIONS.values(), "seconds")
GROUP_WORDS = ("method", "data set", "noise", "seeds", "data seeds")
GROUP_NUMBERS = ("trials", *FRACTIONS.values(), "seconds")
OPTIONAL: dict[str, Callable[[Line], str]] = {  # columns, and what is not worth one
    "mean of networks": lambda line: line["test accuracy"],
    "data seed": lambda line: "0",
    "data seeds": lambda line: "0",
}

WHERE = ("dataset", "digest", "noise")  # runs that share these share their charts
TRIAL = ("seed", "data_seed", "trace")  # runs that differ in nothing else are trials of one thing
TOOLS = ("versions", "commit", "device", "threads", "machine")
NOISE = "realised_noise"
LOOKS = 42  # that differ: seven colours by six dashes
LONGEST = 20  # entries of a list, and classes of a matrix, that are shown


def write_report(folder: Path, out: Path) -> int:
    """Write the page of all runs in a folder and in the folders below it.

    Args:
        folder: Holds runs, finished or not, and files that `pack` made of runs.
        out: The page.

    Returns:
        How many runs the page shows; damaged ones are named on it, but not counted.

    Raises:
        LabelNoiseError: There is no such folder, or no run in it.
    """
    found, damaged = _read_all(folder)
    trials = _without_copies(found)
    report = {
        "folder": folder.resolve().name or str(folder),
        "made": f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
        "version": labelnoise.__version__,
        "copies": len(found) - len(trials),
        "damaged": damaged,
        "metrics": [
            {"key": key, "title": title, "unit": unit} for key, (title, unit) in METRICS.items()
        ],
        **_contents(trials),
    }
    write_page(resources.files("labelnoise.experiment"), "report.html", report, out)
    return len(trials)


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One run, as far as the page shows it."""

    path: str
    done: bool
    method: str
    label: str
    where: Where
    how: How
    seed: int
    data_seed: int
    epochs: int
    epochs_asked: int
    wrong_labels: str
    values: dict[str, float | None]  # of its last epoch; empty before the first one
    curves: dict[str, list[float | None]]
    about: list[tuple[str, list[tuple[str, str]]]]
    transition: Json | None


def _read_all(folder: Path) -> tuple[list[Trial], list[Json]]:
    """The runs under `folder`, and what is wrong with those that cannot be read."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise LabelNoiseError(f"{folder} {what}: name the folder that holds your runs")
    headers = (path.parent for path in folder.rglob(HEADER))
    paths = sorted([*headers, *folder.rglob(f"*{PACKED}")])
    if not paths:
        raise LabelNoiseError(f"no run in {folder}: make one with `labelnoise train`")
    trials, damaged = [], []
    for path in paths:
        name = path.relative_to(folder).as_posix() if path != folder else folder.resolve().name
        try:
            trials.append(_read(path, name))
        except Exception as error:  # whatever a strange file causes, the others are to be shown
            kind = "" if isinstance(error, LabelNoiseError) else f"{type(error).__name__}: "
            reason = f"{kind}{error}".replace(f"{folder}{os.sep}", "")
            damaged.append({"path": name, "reason": " ".join(reason.split())})
    return trials, damaged


def _read(path: Path, name: str) -> Trial:
    run = Run(path)
    rows, spec = run.rows, run.header["spec"]
    noise, changed = run.header.get(NOISE) or {}, changed_settings(spec)
    wrong_labels = percent(_finite(noise.get("rate")))
    return Trial(
        path=name,
        done=run.done,
        method=spec["method"],
        label=named(spec["method"], changed),
        where=tuple(str(spec[key]) for key in WHERE),
        how=_how({**spec, "settings": changed}),
        seed=int(spec["seed"]),
        data_seed=int(spec["data_seed"]),
        epochs=len(rows),
        epochs_asked=int(spec["training"]["epochs"]),
        wrong_labels=wrong_labels,
        values=_values(run) if rows else {},
        curves={key: [_rounded(row.get(key), key) for row in rows] for key in METRICS},
        about=_about(run.header, wrong_labels),
        transition=_transition(noise.get("transition") or [], run.header),
    )


def _how(spec: Json) -> How:
    apart = {*WHERE, *TRIAL}
    asked = {key: value for key, value in spec.items() if key not in apart and value is not None}
    return tuple(sorted(_flat(asked).items()))


def _values(run: Run) -> dict[str, float | None]:
    """The numbers of the tables."""
    summary = run.summary()
    return {key: _finite(summary[key]) for key in (*FRACTIONS, "train_seconds")}


def _finite(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _rounded(value: Any, key: str) -> float | None:
    """A number of a curve, in its unit, to the digits that are shown."""
    number = _finite(value)
    if number is None:
        return None
    return float(percent(number) if METRICS[key][1] == "percent" else f"{number:.5g}")


def _about(header: Json, wrong_labels: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """What was asked, with what it was made and on what, as names and texts."""
    parts = {
        "Spec": header["spec"],
        "Made with": {key: header[key] for key in TOOLS if key in header},
        "Data": {
            **{key: header[key] for key in header if key not in {"spec", NOISE, *TOOLS}},
            "wrong labels": f"{wrong_labels} %",
        },
    }
    return [(title, list(_flat(part).items())) for title, part in parts.items()]


def _transition(matrix: Sequence[Sequence[float]], header: Json) -> Json | None:
    """The realised transition in percent, where it is known and small enough to read."""
    if not 0 < len(matrix) <= LONGEST:
        return None
    classes = [str(name) for name in header["classes"]]
    return {"classes": classes, "rows": [[percent(value) for value in row] for row in matrix]}


def _flat(part: Json, prefix: str = "") -> dict[str, str]:
    """Nested settings on one level, as texts."""
    flat: dict[str, str] = {}
    for key, value in part.items():
        nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": _text(value)}
    return flat


def _text(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        more = [f"and {len(value) - LONGEST} more"] if len(value) > LONGEST else []
        return ", ".join([*(_text(item) for item in value[:LONGEST]), *more])
    return value if isinstance(value, str) else json.dumps(value)


def _without_copies(trials: Sequence[Trial]) -> list[Trial]:
    """A packed run next to its folder is the same run, and no second trial."""
    unlike = {json.dumps([each.about, each.curves]): each for each in reversed(trials)}
    return list(reversed(unlike.values()))


# --- what the page says ---------------------------------------------------------------------------


def _contents(trials: Sequence[Trial]) -> Json:
    """Runs, groups of runs that differ only by seed, and places: what shares its charts."""
    names, datasets = _names(trials), _dataset_names(trials)
    ordered = sorted(
        trials, key=lambda each: (each.where, names[each.how], each.seed, each.data_seed, each.path)
    )
    looks = _looks(ordered)
    groups = _grouped(ordered, lambda each: (each.where, each.how))
    runs: list[Json] = []
    lines: list[Json] = []
    places: dict[Where, Json] = {}
    for number, ((where, how), members) in enumerate(groups.items()):
        words = [names[how], datasets[where[:2]], where[2]]
        runs += [{"group": number, **_run(each, words)} for each in members]
        waiting = sum(not each.done for each in members)
        cells = _group_cells(members, words)
        lines.append({"look": looks[how], "unfinished": waiting, "cells": cells})
        title = f"{datasets[where[:2]]}, noise {where[2]}"
        places.setdefault(where, {"title": title, "groups": []})["groups"].append(number)
    return {
        "runs": runs,
        "groups": lines,
        "places": list(places.values()),
        "run_columns": _columns(RUN_WORDS, RUN_NUMBERS, runs),
        "group_columns": _columns(GROUP_WORDS, GROUP_NUMBERS, lines),
    }


def _columns(words: Sequence[str], numbers: Sequence[str], lines: Sequence[Json]) -> list[Json]:
    """The headings of a table; an optional column that would say nothing is not shown."""
    titles = (*words, *numbers)
    texts = [dict(zip(titles, line["cells"], strict=True)) for line in lines]
    columns = []
    for title in titles:
        needless = OPTIONAL.get(title)
        shown = needless is None or any(text[title] != needless(text) for text in texts)
        columns.append({"title": title, "number": title in numbers, "shown": shown})
    return columns


def _run(trial: Trial, words: Sequence[str]) -> Json:
    return {
        "path": trial.path,
        "method": trial.method,
        "done": trial.done,
        "cells": [
            *words,
            trial.wrong_labels,
            f"{trial.epochs} of {trial.epochs_asked}",
            str(trial.seed),
            str(trial.data_seed),
            *(percent(trial.values.get(key)) for key in FRACTIONS),
            _seconds(trial.values.get("train_seconds")),
        ],
        "curves": trial.curves,
        "about": trial.about,
        "transition": trial.transition,
    }


def _group_cells(members: Sequence[Trial], words: Sequence[str]) -> list[str]:
    """Mean and deviation over finished runs: the last epoch of another is not its end."""
    # The same seeds again, on another machine or with a trace, are no further trial.
    finished = {(each.seed, each.data_seed): each for each in members if each.done}
    return [
        *words,
        _listed(each.seed for each in members),
        _listed(each.data_seed for each in members),
        str(len(finished)),
        *(
            _spread([each.values.get(key) for each in finished.values()], percent)
            for key in FRACTIONS
        ),
        _spread([each.values.get("train_seconds") for each in finished.values()], _seconds),
    ]


def _spread(values: Sequence[float | None], write: Callable[[float | None], str]) -> str:
    """Mean and standard deviation (with n - 1); of one trial, only the mean."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "-"
    mean = write(statistics.fmean(known))
    return f"{mean} ± {write(statistics.stdev(known))}" if len(known) > 1 else mean


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(str(seed) for seed in sorted(set(seeds)))


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


# --- telling runs apart ---------------------------------------------------------------------------


def _names(trials: Sequence[Trial]) -> dict[How, str]:
    """What each way to train is called: its label, and the fewest settings that tell it apart."""
    names = {each.how: each.label for each in trials}
    for key in dict.fromkeys(key for how in names for key, _ in how):
        for alike in _grouped(names, names.__getitem__).values():
            values = {how: dict(how).get(key, "unset") for how in alike}
            if len(set(values.values())) > 1:
                word = key.rpartition(".")[2]
                names.update({how: f"{names[how]}, {word} {values[how]}" for how in alike})
    return names


def _dataset_names(trials: Iterable[Trial]) -> dict[Where, str]:
    """What data are called; the digest tells versions of the same data set apart."""
    versions = _grouped({each.where[:2] for each in trials}, lambda data: data[0])
    return {
        data: name if len(alike) == 1 else f"{name} {data[1][:8]}"
        for name, alike in versions.items()
        for data in alike
    }


def _looks(trials: Iterable[Trial]) -> dict[How, int]:
    """A number for the line of each way to train: the same in all charts, no two in one chart.

    A method keeps its line where only its settings differ from chart to chart.
    """
    by_place = _grouped(trials, lambda each: each.where)
    charts = [dict.fromkeys(each.how for each in alike) for alike in by_place.values()]
    looks: dict[How, int] = {}
    for how in dict.fromkeys(itertools.chain.from_iterable(charts)):
        rivals = itertools.chain.from_iterable(chart for chart in charts if how in chart)
        taken = {looks[rival] for rival in rivals if rival in looks}
        own = [looks[other] for other in looks if _method(other) == _method(how)]
        new = [look for look in range(LOOKS) if look not in looks.values()]
        choice = itertools.chain(own, new, itertools.count())
        looks[how] = next(look for look in choice if look not in taken)
    return looks


def _method(how: How) -> str:
    return dict(how)["method"]


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
