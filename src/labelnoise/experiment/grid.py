"""Experiment: a table or figure as data, and the runs that it consists of.

An experiment is a TOML file: `[base]` holds for all runs, `[axes]` multiply, every `[[patch]]`
adjusts the runs that it matches, `[table]` or `[figure]` says what to show. The value of an axis is
either one value, given to the setting of the axis's name, or a table of several settings, whose
`name` is what tables and legends call it.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from labelnoise.data import DATASETS
from labelnoise.errors import LabelNoiseError, nearest, unknown
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.published import published
from labelnoise.experiment.spec import presets
from labelnoise.experiment.supply import needs_rate, needs_trusted
from labelnoise.learner import SCHEDULES
from labelnoise.methods import METHODS
from labelnoise.nets import NETS

Value = bool | int | float | str | tuple[int, ...]
Axis = list[Value | dict[str, Value]]

# What `train` takes by its own name; everything else is a field of the method or of its training.
DIRECT = {
    "dataset", "method", "noise", "noise_rate", "trusted", "net", "preset", "epochs", "batch_size",
    "data_seed",
}  # fmt: skip

METRICS = {  # what a table can show, and what it is called there
    "test_accuracy": "test accuracy, last epoch, %",
    "test_accuracy_balanced": "balanced test accuracy, last epoch, %",
    "label_precision": "label precision, last epoch, %",
    "label_recall": "label recall, last epoch, %",
    "test_accuracy_last10": "test accuracy, mean of the last ten epochs, %",
    "train_seconds": "training time",
}
CURVES = ("test_accuracy", "label_precision", "label_recall", "selected_fraction")
NAME = "name"  # in the value of an axis: no setting
TIME, TRACED = "train_seconds", "thresholds_by_batch"


class Strict(BaseModel):
    """What comes from a file: an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Patch(Strict):
    """Settings for the runs whose settings equal all of `when`."""

    when: dict[str, Value]
    set: dict[str, Value]


class Table(Strict):
    """How a table shows its runs: a block for every value of `block`, a line for every `line`."""

    block: str
    line: str
    column: str = ""  # beside each other, with mean ranks; a line is one entry without
    metrics: list[str] = ["test_accuracy"]
    over: dict[str, Value] = {}  # show ratios to the line with these settings
    any_epochs: bool = False  # fewer epochs than the paper's do not matter


class Figure(Strict):
    """How a figure shows its runs: a panel for every value of `panel`, a curve for every `line`."""

    panel: str
    line: str
    metric: str
    trace: list[Annotated[float, Field(ge=0, le=1)]] = []  # moments whose mini-batches are shown
    classes: dict[str, list[NonNegativeInt]] = {}  # which classes of which panel, for traces


class Experiment(Strict):
    """A table or figure of the paper."""

    title: str
    explains: str
    trials: PositiveInt = 5
    published: list[str] = []  # tables of published.toml to compare with
    base: dict[str, Value]
    axes: dict[str, Axis]
    patch: list[Patch] = []
    table: Table | None = None
    figure: Figure | None = None


PARTS: dict[str, type[BaseModel]] = {"table": Table, "figure": Figure, "patch": Patch}


@dataclass(frozen=True)
class Cell:
    """One entry of a table or one curve of a figure, for all seeds.

    Attributes:
        place: The label of the cell on every axis.
        settings: What `train` is asked for.
    """

    place: Mapping[str, str]
    settings: Mapping[str, Value]

    def ask(self, seed: int = 0, epochs: int | None = None, trace: Collection[float] = ()) -> Ask:
        """One run of it; `trace` are moments of the training, 0 to 1."""
        direct = {key: value for key, value in self.settings.items() if key in DIRECT}
        asks: dict[str, Any] = {"preset": "paper", **direct, "seed": seed}
        asks["data"] = asks.pop("dataset")
        asks["changes"] = {k: v for k, v in self.settings.items() if k not in DIRECT}
        if epochs is not None:
            asks["epochs"] = epochs
        if trace:
            last = asks.get("epochs") or presets()[asks["preset"]]["epochs"]
            asks["trace"] = tuple(max(1, round(moment * last)) for moment in trace)
        return Ask(**asks)


def experiments() -> dict[str, Experiment]:
    """All experiments that come with the package, by name."""
    folder = resources.files("labelnoise.experiments")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return {
        file.name.removesuffix(".toml"): parse_experiment(file.read_text(), file.name)
        for file in files
        if file.name != "published.toml"
    }


def experiment_named(name: str) -> Experiment:
    """The experiment called `name`, or the one in the file of that name (`mine.toml`)."""
    path = Path(name).expanduser()
    if path.suffix == ".toml":
        if not path.is_file():
            raise LabelNoiseError(f"no such file: {name}")
        return parse_experiment(path.read_text(), name)
    known = experiments()
    if name not in known:
        raise unknown("experiment", name, known)
    return known[name]


def parse_experiment(text: str, name: str) -> Experiment:
    """An experiment from its file's text; an error names the file and what is wrong in it."""
    try:
        experiment = Experiment(**tomllib.loads(text))
        _check(experiment)
    except tomllib.TOMLDecodeError as error:
        raise LabelNoiseError(f"{name} is not TOML: {error}") from error
    except ValidationError as error:
        raise LabelNoiseError(f"{name}: {_first_of(error)}") from error
    except LabelNoiseError as error:
        raise LabelNoiseError(f"{name}: {error}") from error
    return experiment


def _first_of(error: ValidationError) -> str:
    """The error that tells most: a key that nobody knows may be why another one is missing."""
    errors = error.errors()
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    *parents, key = first["loc"]
    if first["type"] != "extra_forbidden":
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    part = PARTS[str(parents[0])] if parents else Experiment
    return str(unknown("key", str(key), part.model_fields))


def _check(experiment: Experiment) -> None:
    """Refuse what would end in an error, or in nothing, only when it runs."""
    for axis, values in experiment.axes.items():
        if not values:
            raise LabelNoiseError(f"axis {axis!r} is empty")
    plain = [cell.settings for cell in _product(experiment)]
    for key in ("dataset", "method"):
        if not all(key in each for each in plain):
            raise LabelNoiseError(f"every run needs a {key!r}, in [base] or in [axes]")
    known = {key for each in plain for key in each}
    known |= {key for patch in experiment.patch for key in patch.set}
    for key in (key for patch in experiment.patch for key in patch.when):
        if key not in known:
            raise unknown("setting of a patch", key, known)
    places = [{**cell.settings, **cell.place} for cell in cells(experiment)]
    if experiment.table and not experiment.figure:
        _check_table(experiment.table, places)
    elif experiment.figure and not experiment.table:
        _check_figure(experiment.figure, places)
    else:
        raise LabelNoiseError("it needs either a [table] or a [figure]")
    for table in experiment.published:
        if table not in published().tables:
            raise unknown("published table", table, published().tables)


def _check_table(table: Table, places: list[dict[str, Value]]) -> None:
    _check_places(filter(None, (table.block, table.line, table.column)), places, "metric")
    _check_places(table.over, places)
    for metric in table.metrics:
        if metric not in METRICS:
            raise unknown("metric", metric, METRICS)
    if bool(table.over) != (TIME in table.metrics) or (table.over and len(table.metrics) > 1):
        raise LabelNoiseError(f"ratios ('over') are taken of {TIME!r} alone, and it needs them")


def _check_figure(figure: Figure, places: list[dict[str, Value]]) -> None:
    if figure.trace:
        _check_places((figure.panel,), places)
        if figure.metric != TRACED:
            raise LabelNoiseError(f"a trace shows {TRACED!r}, not {figure.metric!r}")
        for panel in dict.fromkeys(str(place[figure.panel]) for place in places):
            if panel not in figure.classes:
                raise LabelNoiseError(f"[figure.classes] has no classes for {panel!r}")
        return
    _check_places((figure.panel, figure.line), places)
    if figure.metric not in CURVES:
        raise unknown("metric", figure.metric, CURVES)


def _check_places(keys: Iterable[str], places: list[dict[str, Value]], *besides: str) -> None:
    """Refuse what not every run has."""
    known = {*set.intersection(*(set(place) for place in places)), *besides}
    for key in keys:
        if any(key in place for place in places) and key not in known:
            raise LabelNoiseError(
                f"not every run has a {key!r}: choose from {', '.join(sorted(known))}"
            )
        if key not in known:
            raise unknown("axis or setting", key, known)


def check_classes(figure: Figure, cell: Cell, num_classes: int) -> None:
    """Refuse a trace of a class that the data of a cell do not have."""
    panel = str({**cell.settings, **cell.place}[figure.panel])
    for number in figure.classes.get(panel, ()):
        if number >= num_classes:
            raise LabelNoiseError(f"[figure.classes]: {panel} has classes 0 to {num_classes - 1}")


def cells(
    experiment: Experiment,
    methods: Collection[str] = (),
    only: Mapping[str, str] | None = None,
) -> list[Cell]:
    """The cells of an experiment.

    Args:
        experiment: What to expand.
        methods: Which methods to keep; none means all. What ratios are taken to is kept with them.
        only: Settings that the cells to keep have, as text.
    """
    for method in methods:
        if method not in METHODS:
            raise unknown("method", method, METHODS)
    found = [_patched(cell, experiment.patch) for cell in _product(experiment)]
    for key in only or {}:
        if not any(key in cell.settings for cell in found):
            raise unknown("setting", key, {key for cell in found for key in cell.settings})
    unit = experiment.table.over.get("method") if experiment.table else None
    found = [
        cell
        for cell in found
        if (not methods or cell.settings["method"] in {*methods, unit})
        and all(str(cell.settings.get(key)) == value for key, value in (only or {}).items())
    ]
    if not found:
        raise LabelNoiseError("no run is left: give fewer or other --methods or --only")
    return found


def missing(found: Collection[Cell]) -> list[str]:
    """What the cells need that this version does not have."""
    needs: dict[str, tuple[set[Value], Collection[str]]] = {
        "data set": ({cell.settings["dataset"] for cell in found}, DATASETS),
        "net": ({cell.settings.get("net", "auto") for cell in found} - {"auto"}, NETS),
        "method": ({cell.settings["method"] for cell in found}, METHODS),
        "schedule": (
            {c.settings["schedule"] for c in found if "schedule" in c.settings},
            SCHEDULES,
        ),
    }
    return [
        f"{kind} {name!r}{_perhaps(name, known)}"
        for kind, (names, known) in needs.items()
        for name in sorted(map(str, names))
        # A file, or a net of one's own, is not known by name.
        if name not in known and not any(sign in name for sign in ".:/")
    ]


def _perhaps(name: str, known: Collection[str]) -> str:
    """Which known name may be meant."""
    found = nearest(name, known, cutoff=0.7)
    return f" (did you mean {found!r}?)" if found else ""


def _product(experiment: Experiment) -> Iterator[Cell]:
    """Every combination of one value from each axis."""
    for values in itertools.product(*experiment.axes.values()):
        settings = dict(experiment.base)
        place = {}
        for axis, value in zip(experiment.axes, values, strict=True):
            several = dict(value) if isinstance(value, dict) else {axis: value}
            name = several.pop(NAME, None)
            settings |= several
            words = (in_words(key, part) for key, part in several.items())
            place[axis] = ", ".join(words) if name is None else str(name)
        yield Cell(place, settings)


def in_words(name: str, value: Any) -> str:
    """A setting as a table or legend shows it: text speaks for itself."""
    return value if isinstance(value, str) else f"{name}={value}"


def _patched(cell: Cell, patches: list[Patch]) -> Cell:
    """A cell with its patches."""
    settings = dict(cell.settings)
    for patch in patches:
        if all(settings.get(key) == value for key, value in patch.when.items()):
            settings |= patch.set
    return suited(Cell(cell.place, settings))


def suited(cell: Cell) -> Cell:
    """A cell without what its method has no use for."""
    settings = dict(cell.settings)
    method = str(settings["method"])
    if method in METHODS:
        if not needs_rate(method):
            settings.pop("noise_rate", None)
        if not needs_trusted(method):
            settings.pop("trusted", None)
    return Cell(cell.place, settings)
