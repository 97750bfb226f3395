"""Methods side by side, with the significance of their difference, paired by seed.

What is tested is the test accuracy after the last epoch, and the unit of every test is the seed.
The same seed gives methods on the same net the same initialisation and order of samples, so their
difference is taken seed by seed. The answer is about other seeds on this split, this noise and this
test part. It is not about other test samples: all methods saw the same ones, but their predictions
are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from statistics import fmean as mean
from statistics import stdev
from typing import Any

from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.spec import Spec
from labelnoise.experiment.table import label, percent
from labelnoise.metrics.significance import LEVEL, holm, paired_t, signed_rank
from labelnoise.record.run import Run

RANKED = 6  # pairs; with fewer, the smallest p-value that Wilcoxon's test can give is above LEVEL
DIGITS = 12  # of a difference of accuracies: what lies beyond is rounding, and would break ties

MEASURES = {  # the best epoch is chosen by the test part: it is not compared
    "test_accuracy": "test\naccuracy",
    "test_accuracy_last10": "last\n10",
    "label_precision": "label\nprecision",
    "label_recall": "label\nrecall",
}
MEAN = "test_accuracy_mean"  # over a method's networks; runs of older versions had but one
DATA = ("dataset", "noise", "data_seed")
DIGESTED = "(of the data and, if any, of an own net, matrix or trusted file)"
SETTING = ("net", "preset", "noise_rate", "trusted")
WITHOUT_EFFECT = {"seed", "trace"}  # on what is compared


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (n - 1) over seeds; None is what is not known."""

    mean: float | None
    deviation: float | None


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed.

    Attributes:
        name: The method and what sets it apart from the other groups on the same data.
        data: What it was trained and tested on.
        runs: Where its runs are, in the order of their seeds.
        accuracies: The test accuracy after the last epoch, by seed.
        measures: What MEASURES names, over the seeds.
    """

    name: str
    data: str
    runs: tuple[str, ...]
    accuracies: Mapping[int, float]
    measures: Mapping[str, Spread]


@dataclass(frozen=True)
class Pair:
    """The first group against the second; None is what cannot be told.

    Attributes:
        first: One group.
        second: The other one.
        seeds: Those that both have.
        difference: Mean of first minus second.
        interval: Its 95 % confidence interval, for this pair alone.
        p: Of the two-sided paired t-test.
        p_adjusted: The same by Holm, for all the pairs that are tested together.
        wilcoxon: Two-sided p of the signed-rank test, from RANKED pairs on.
        wilcoxon_adjusted: The same by Holm.
        note: What else a reader must know.
    """

    first: Group
    second: Group
    seeds: tuple[int, ...] = ()
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    p_adjusted: float | None = None
    wilcoxon: float | None = None
    wilcoxon_adjusted: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """A plain word for the first group, by the adjusted t-test."""
        if self.difference is None:
            return "not comparable"
        if len(self.seeds) == 1:
            return "one seed"
        if self.p_adjusted is None or self.p_adjusted >= LEVEL:
            return "no clear difference"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True)
class Comparison:
    """Methods and settings side by side.

    Attributes:
        groups: In the order of their first runs.
        pairs: Every two of them.
        shared: What all groups have in common.
        notes: What else a reader must know.
    """

    groups: tuple[Group, ...]
    pairs: tuple[Pair, ...]
    shared: str = ""
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON: fractions, not percent."""
        groups = [asdict(group) for group in self.groups]
        for group in groups:
            group |= group.pop("measures")
            group["accuracies"] = {str(k): value for k, value in group["accuracies"].items()}
        pairs = []
        for pair in self.pairs:
            ends = {
                side: {"name": group.name, "data": group.data}
                for side, group in (("first", pair.first), ("second", pair.second))
            }
            pairs.append({**asdict(pair), **ends, "verdict": pair.verdict})
        return {
            "shared": self.shared,
            "groups": groups,
            "pairs": pairs,
            "notes": list(self.notes),
        }


def compared(runs: Sequence[Run]) -> Comparison:
    """Group finished runs by all but their seed, and test every pair of groups on the same data.

    Raises:
        LabelNoiseError: A run is not finished, one seed of a group has two different results, or
            there are fewer than two groups.
    """
    members: dict[str, dict[int, Run]] = {}
    for run in runs:
        if not run.done:
            raise LabelNoiseError(
                f"{run.path} is not finished: start its command again first, or leave it out"
            )
        _add(run, members.setdefault(_spec(run).model_dump_json(exclude=WITHOUT_EFFECT), {}))
    if len(members) < 2:
        raise LabelNoiseError(
            "there is nothing to compare, the runs differ in nothing but the seed: name runs of "
            "two methods or settings at least"
        )
    by_seed = [dict(sorted(group.items())) for group in members.values()]
    firsts = [next(iter(group.values())) for group in by_seed]
    parts = zip(_names(firsts), _data(firsts), by_seed, strict=True)
    groups = tuple(_group(*part) for part in parts)
    pairs = [_pair(*two) for two in combinations(groups, 2)]
    return Comparison(groups, _adjusted(pairs), _shared(firsts), _notes(groups, by_seed))


# --- from runs to groups and pairs ----------------------------------------------------------------


def _spec(run: Run) -> Spec:
    return Spec.of(run.header["spec"])


def _add(run: Run, group: dict[int, Run]) -> None:
    """Put a run into its group; a copy of one that is there counts once."""
    there = group.setdefault(run.header["spec"]["seed"], run)
    if there is not run and _measured(there) != _measured(run):
        raise LabelNoiseError(
            f"{there.path} and {run.path} are the same run with different results: leave one out"
        )


def _measured(run: Run) -> dict[str, Any]:
    summary = run.summary()
    return {key: summary[key] for key in MEASURES}


def _names(runs: Sequence[Run]) -> list[str]:
    """The method of each run, and what sets it apart; what a preset explains is not repeated."""
    specs = [_spec(run) for run in runs]
    abouts = [{key: getattr(spec, key) for key in SETTING} for spec in specs]
    trainings = [spec.training.model_dump() for spec in specs]
    presets = [(spec.preset, spec.dataset) for spec in specs]
    told = [key for key in SETTING if len({about[key] for about in abouts}) > 1]
    told += [k for k in trainings[0] if _ambiguous(presets, [each[k] for each in trainings])]
    names = []
    for run, about, training in zip(runs, abouts, trainings, strict=True):
        values = {key: {**about, **training}[key] for key in told}
        words = [f"{key} {value}" for key, value in values.items() if value is not None]
        names.append(", ".join([label(run), *words]))
    # A label leaves out what is None, which need not be the default.
    return _told_apart(names, [str(spec.settings) for spec in specs], " ")


def _data(runs: Sequence[Run]) -> list[str]:
    """What each run was trained and tested on: equal texts for equal data, and only for them."""
    specs = [_spec(run) for run in runs]
    texts = [", ".join(f"{key} {getattr(spec, key)}" for key in DATA) for spec in specs]
    digests = [f"digest {spec.digest[:10]} {DIGESTED}" for spec in specs]
    return _told_apart(texts, digests, ", ")


def _told_apart(texts: Sequence[str], details: Sequence[str], between: str) -> list[str]:
    """The texts, with the details of those that are equal although their details are not."""
    unclear = _ambiguous(texts, details)
    pairs = zip(texts, details, strict=True)
    return [f"{text}{between}{more}" if text in unclear else text for text, more in pairs]


def _ambiguous(keys: Sequence[Any], values: Sequence[Any]) -> set[Any]:
    """The keys that have more than one value."""
    first = dict(zip(reversed(keys), reversed(values), strict=True))
    return {key for key, value in zip(keys, values, strict=True) if value != first[key]}


def _shared(runs: Sequence[Run]) -> str:
    """What the title says of all groups."""
    specs = [_spec(run) for run in runs]
    every: dict[str, set[Any]] = {
        "net": {spec.net for spec in specs},
        "preset": {spec.preset for spec in specs},
        "epochs": {spec.training.epochs for spec in specs},
    }
    return ", ".join(f"{key} {each.pop()}" for key, each in every.items() if len(each) == 1)


def _group(name: str, data: str, by_seed: Mapping[int, Run]) -> Group:
    measured = {seed: _measured(run) for seed, run in by_seed.items()}
    columns = {key: [each[key] for each in measured.values()] for key in MEASURES}
    return Group(
        name=name,
        data=data,
        runs=tuple(str(run.path) for run in by_seed.values()),
        accuracies=dict(zip(by_seed, columns["test_accuracy"], strict=True)),
        measures={key: _spread(column) for key, column in columns.items()},
    )


def _spread(values: Sequence[float | None]) -> Spread:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Spread(None, None)
    return Spread(mean(known), stdev(known) if len(known) > 1 else None)


def _pair(first: Group, second: Group) -> Pair:
    if first.data != second.data:
        return Pair(first, second, note="different data")
    seeds = tuple(seed for seed in first.accuracies if seed in second.accuracies)
    if not seeds:
        return Pair(first, second, note="no seed in common")
    differences = [round(first.accuracies[s] - second.accuracies[s], DIGITS) for s in seeds]
    difference = mean(differences)
    if len(seeds) == 1:
        return Pair(first, second, seeds, difference, note="no significance")
    p, interval = paired_t(differences)
    ranked = signed_rank(differences) if len(seeds) >= RANKED else None
    note = "all differences are equal, no t-test" if p is None else ""
    return Pair(first, second, seeds, difference, interval, p, wilcoxon=ranked, note=note)


def _adjusted(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The same pairs with both kinds of p-values adjusted, each over the pairs that have one."""
    by_t = iter(holm([pair.p for pair in pairs if pair.p is not None]))
    by_rank = iter(holm([pair.wilcoxon for pair in pairs if pair.wilcoxon is not None]))
    return tuple(
        replace(
            pair,
            p_adjusted=None if pair.p is None else next(by_t),
            wilcoxon_adjusted=None if pair.wilcoxon is None else next(by_rank),
        )
        for pair in pairs
    )


def _notes(groups: Sequence[Group], by_seed: Sequence[Mapping[int, Run]]) -> tuple[str, ...]:
    """What the accuracy of a method with several networks is: the row holds the better one's."""
    notes = []
    for group, runs in zip(groups, by_seed, strict=True):
        lasts = [run.rows[-1] for run in runs.values()]
        means = [last[MEAN] if MEAN in last else last["test_accuracy"] for last in lasts]
        if means != [last["test_accuracy"] for last in lasts]:
            notes.append(
                f"{group.name} ({group.data}): of its networks the one that is better on the test "
                f"part; the mean of all is {percent(mean(means))}"
            )
    return tuple(notes)
