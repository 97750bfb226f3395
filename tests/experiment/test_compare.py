"""Methods side by side: against closed forms, brute force and SciPy called another way."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from itertools import chain, combinations, count, product
from pathlib import Path
from typing import Any

import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.compare import Comparison, Pair, compared
from labelnoise.experiment.compare_table import comparison_tables
from labelnoise.experiment.run import train
from labelnoise.experiment.spec import expand
from labelnoise.metrics.significance import holm, paired_t, signed_rank
from labelnoise.record.run import Run

NUMBERS = count()
ACCURACY = st.integers(0, 10_000).map(lambda right: right / 10_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packed")


def packed(
    folder: Path,
    accuracy: float,
    seed: int = 0,
    method: str = "bare",
    *,
    last: dict[str, Any] | None = None,
    fields: dict[str, Any] | None = None,
    without: Sequence[str] = (),
    **asked: Any,
) -> Run:
    """A finished run that nobody trained."""
    about = {"dataset": "digits", "digest": "d" * 32, "noise": "symmetric:0.5", "net": "mlp"}
    spec = expand(**{**about, "method": method, "seed": seed, **asked}).model_dump(mode="json")
    spec["settings"] |= fields or {}
    spec = {key: value for key, value in spec.items() if key not in without}
    row: dict[str, Any] = {
        "test_accuracy": accuracy,
        "test_accuracy_balanced": accuracy,
        "label_precision": 0.9,
        "label_recall": 0.8,
        "selected_fraction": 0.5,
        "train_seconds": 1.0,
    }
    rows = [{"epoch": 1, **row, "test_accuracy": 0.5}, {"epoch": 2, **row, **(last or {})}]
    path = folder / f"{next(NUMBERS)}.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"header": {"spec": spec}, "rows": rows}).encode()))
    return Run(path)


def two(folder: Path, first: Sequence[float], second: Sequence[float]) -> list[Run]:
    """BARE and cross-entropy, seeds from 0."""
    runs = [packed(folder, value, seed) for seed, value in enumerate(first)]
    return runs + [packed(folder, value, seed, "cce") for seed, value in enumerate(second)]


def only_pair(runs: Sequence[Run]) -> Pair:
    (pair,) = compared(runs).pairs
    return pair


def shown(comparison: Comparison) -> str:
    console = Console(width=1000, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    for table in comparison_tables(comparison):
        console.print(table)
    console.file.close()
    return console.export_text()


def words(text: str) -> str:
    """The text of a table without the breaks of its lines."""
    return " ".join(text.split())


# --- statistics -----------------------------------------------------------------------------------


def test_worked_example(folder: Path) -> None:
    """Differences 2, 1, 3 and 0 points: mean 1.5, deviation sqrt(5 / 3), t = 2.32379."""
    pair = only_pair(two(folder, (0.95, 0.93, 0.96, 0.94), (0.93, 0.92, 0.93, 0.94)))
    assert pair.seeds == (0, 1, 2, 3)
    assert pair.difference == pytest.approx(0.015)
    t = 1.5 / math.sqrt(5 / 3 / 4)
    angle = math.atan(t / math.sqrt(3))  # Student's distribution with 3 degrees, in closed form
    p = 1 - 2 / math.pi * (angle + math.sin(angle) * math.cos(angle))
    assert pair.p == pytest.approx(p)
    assert pair.p == pytest.approx(0.1027, abs=1e-4)
    reach = 3.182446 * math.sqrt(5 / 3 / 4) / 100  # from a printed table of t
    assert pair.interval == pytest.approx((0.015 - reach, 0.015 + reach), abs=1e-8)
    assert pair.wilcoxon is None
    assert pair.verdict == "no clear difference"


@settings(deadline=None)
@example(centre=1e-9, width=0.5)
@given(st.floats(-1, 1), st.floats(0.001, 1))
def test_two_and_three_seeds_against_closed_forms(centre: float, width: float) -> None:
    t = abs(centre) / width
    p, interval = paired_t([centre - width, centre + width])
    assert p == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-9)
    wide = width * math.tan(0.475 * math.pi)  # the 97.5 % quantile of Cauchy's distribution
    assert interval == pytest.approx((centre - wide, centre + wide), rel=1e-9, abs=1e-9)
    p, _ = paired_t([centre - width, centre, centre + width])
    t = abs(centre) / (width / math.sqrt(3))
    assert p == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.tuples(ACCURACY, ACCURACY), min_size=2, max_size=12))
def test_t_test_is_scipys_paired_one(pairs: list[tuple[float, float]]) -> None:
    differences = [round(one - two, 12) for one, two in pairs]
    assume(len(set(differences)) > 1)
    p, interval = paired_t(differences)
    expected = scipy.stats.ttest_rel(*zip(*pairs, strict=True))
    assert p == pytest.approx(expected.pvalue, rel=1e-6)
    assert interval == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-6, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.integers(-4, 4).map(lambda points: points / 100), min_size=6, max_size=9))
def test_signed_rank_is_the_share_of_signs_that_are_as_extreme(differences: list[float]) -> None:
    sizes = sorted(abs(value) for value in differences if value)
    ranks = {size: sizes.index(size) + (sizes.count(size) + 1) / 2 for size in sizes}
    middle = sum(ranks[size] for size in sizes) / 2
    found = sum(ranks[value] for value in differences if value > 0)
    sums = [
        sum(ranks[size] for size, plus in zip(sizes, signs, strict=True) if plus)
        for signs in product((True, False), repeat=len(sizes))
    ]
    extreme = sum(abs(each - middle) >= abs(found - middle) - 1e-9 for each in sums)
    assert signed_rank(differences) == pytest.approx(extreme / len(sums))


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=6, max_size=20, unique_by=abs).filter(all))
def test_signed_rank_is_scipys_exact_one(differences: list[float]) -> None:
    expected = scipy.stats.wilcoxon(differences, method="exact").pvalue
    assert signed_rank(differences) == pytest.approx(expected)


def test_holm_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert holm([0.9, 0.95]) == [1.0, 1.0]
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_closed_testing_with_bonferroni(p_values: list[float]) -> None:
    places = range(len(p_values))
    subsets = list(chain.from_iterable(combinations(places, size + 1) for size in places))
    expected = [
        max(min(1, len(s) * min(p_values[i] for i in s)) for s in subsets if place in s)
        for place in places
    ]
    assert holm(p_values) == pytest.approx(expected)


# --- pairs ----------------------------------------------------------------------------------------


def test_better_and_worse(folder: Path) -> None:
    runs = two(folder, (0.95, 0.96, 0.955), (0.75, 0.77, 0.76))
    assert only_pair(runs).verdict == "better"
    assert only_pair(runs[::-1]).verdict == "worse"
    assert only_pair(runs).wilcoxon is None


def test_six_seeds_have_a_rank_test_too(folder: Path) -> None:
    first = (0.95, 0.96, 0.97, 0.94, 0.93, 0.955)
    pair = only_pair(two(folder, first, [0.9, 0.92, 0.91, 0.89, 0.9, 0.9]))
    assert pair.wilcoxon == pytest.approx(2 / 2**6)
    assert pair.wilcoxon_adjusted == pair.wilcoxon
    assert pair.verdict == "better"


def test_one_seed_has_a_difference_and_no_significance(folder: Path) -> None:
    pair = only_pair(two(folder, [0.95], [0.75, 0.8]))
    assert pair.difference == pytest.approx(0.2)
    assert (pair.seeds, pair.verdict, pair.note) == ((0,), "one seed", "no significance")
    assert (pair.p, pair.p_adjusted, pair.interval, pair.wilcoxon) == (None, None, None, None)


@pytest.mark.parametrize("seeds", [2, 6])
def test_differences_that_are_all_zero(folder: Path, seeds: int) -> None:
    same = [0.9 + 0.01 * seed for seed in range(seeds)]
    pair = only_pair(two(folder, same, same))
    assert (pair.difference, pair.p, pair.interval) == (0, 1, None)
    assert pair.wilcoxon == (1 if seeds == 6 else None)
    assert (pair.verdict, pair.note) == ("no clear difference", "")


@pytest.mark.parametrize("seeds", [2, 6, 20])
def test_differences_that_are_all_equal_have_no_t_test(folder: Path, seeds: int) -> None:
    second = [0.5 + 0.01 * seed for seed in range(seeds)]
    pair = only_pair(two(folder, [value + 0.1 for value in second], second))
    assert pair.difference == pytest.approx(0.1)
    assert (pair.p, pair.p_adjusted, pair.interval) == (None, None, None)
    assert pair.verdict == "no clear difference"
    assert pair.note == "all differences are equal, no t-test"
    assert (pair.wilcoxon is None) == (seeds < 6)


def test_only_seeds_that_both_have_are_paired(folder: Path) -> None:
    runs = [packed(folder, value, seed) for seed, value in ((3, 0.9), (1, 0.8), (7, 0.1))]
    runs += [packed(folder, value, seed, "cce") for seed, value in ((1, 0.7), (2, 0), (3, 0.85))]
    comparison = compared(runs)
    (pair,) = comparison.pairs
    assert pair.seeds == (1, 3)
    assert pair.difference == pytest.approx((0.1 + 0.05) / 2)
    assert list(comparison.groups[0].accuracies) == [1, 3, 7]
    assert comparison.groups[0].measures["test_accuracy"].mean == pytest.approx(0.6)


def test_no_seed_in_common_is_not_comparable(folder: Path) -> None:
    pair = only_pair([packed(folder, 0.9, 0), packed(folder, 0.8, 1, "cce")])
    assert (pair.verdict, pair.note) == ("not comparable", "no seed in common")


@pytest.mark.parametrize(
    "other",
    [
        {"noise": "symmetric:0.2"},
        {"dataset": "mnist"},
        {"data_seed": 1},
        {"digest": "e" * 32},
    ],
    ids=lambda other: next(iter(other)),
)
def test_different_data_are_not_comparable(folder: Path, other: dict[str, Any]) -> None:
    comparison = compared([packed(folder, 0.9), packed(folder, 0.8, method="cce", **other)])
    (pair,) = comparison.pairs
    assert (pair.verdict, pair.note, pair.difference) == ("not comparable", "different data", None)
    assert comparison.groups[0].data != comparison.groups[1].data
    assert "not comparable, different data: 1 of 1 pairs" in words(shown(comparison))


def test_p_values_are_adjusted_for_all_pairs_that_are_tested(folder: Path) -> None:
    runs = two(folder, (0.95, 0.96, 0.94), (0.75, 0.7, 0.76))
    runs += [packed(folder, value, s, preset="paper") for s, value in enumerate((0.9, 0.97, 0.93))]
    runs.append(packed(folder, 0.5, 9, method="cce", preset="paper"))  # no seed in common
    pairs = compared(runs).pairs
    tested = [pair for pair in pairs if pair.p is not None]
    assert (len(pairs), len(tested)) == (6, 3)
    p_values = [pair.p for pair in tested if pair.p is not None]
    assert [pair.p_adjusted for pair in tested] == holm(p_values)


def flipped(pair: Pair) -> Pair:
    less, more = pair.interval or (0, 0)
    return Pair(
        first=pair.second,
        second=pair.first,
        seeds=pair.seeds,
        difference=-(pair.difference or 0),
        interval=(-more, -less) if pair.interval else None,
        p=pair.p,
        p_adjusted=pair.p_adjusted,
        wilcoxon=pair.wilcoxon,
        wilcoxon_adjusted=pair.wilcoxon_adjusted,
        note=pair.note,
    )


@settings(max_examples=30, deadline=None)
@given(accuracies=st.lists(st.tuples(ACCURACY, ACCURACY), min_size=1, max_size=8), data=st.data())
def test_order_of_runs_does_not_matter_and_differences_are_antisymmetric(
    folder: Path, accuracies: list[tuple[float, float]], data: st.DataObject
) -> None:
    runs = two(folder, *zip(*accuracies, strict=True))
    pair = only_pair(runs)
    shuffled = data.draw(st.permutations(runs))
    again = only_pair(shuffled)
    if again.first.name == pair.first.name:
        assert again == pair
    else:
        assert again == flipped(pair)
        swapped = {"better": "worse", "worse": "better"}
        assert again.verdict == swapped.get(pair.verdict, pair.verdict)


# --- groups ---------------------------------------------------------------------------------------


def test_mean_and_deviation_over_seeds(folder: Path) -> None:
    comparison = compared(two(folder, (0.9, 0.92, 0.97), [0.7]))
    spread = comparison.groups[0].measures["test_accuracy"]
    assert spread.mean == pytest.approx(0.93)
    assert spread.deviation == pytest.approx(math.sqrt((0.03**2 + 0.01**2 + 0.04**2) / 2))
    last10 = comparison.groups[0].measures["test_accuracy_last10"]
    assert last10.mean == pytest.approx((0.5 + 0.93) / 2)
    alone = comparison.groups[1].measures["test_accuracy"]
    assert (alone.mean, alone.deviation) == (0.7, None)


def test_what_is_not_known_of_one_run_is_not_known_of_its_group(folder: Path) -> None:
    runs = two(folder, (0.9, 0.92), (0.8, 0.81))
    runs.append(packed(folder, 0.9, 2, last={"label_precision": None}))
    comparison = compared(runs)
    assert comparison.groups[0].measures["label_precision"].mean is None
    assert comparison.groups[1].measures["label_precision"].mean == pytest.approx(0.9)


def test_what_has_no_effect_or_was_not_yet_recorded_makes_no_group(folder: Path) -> None:
    runs = two(folder, (0.9, 0.92), (0.8, 0.81))
    runs.append(packed(folder, 0.93, 2, trace=(1,)))
    runs.append(packed(folder, 0.94, 3, without=("noise_rate", "trusted")))
    assert [len(group.runs) for group in compared(runs).groups] == [4, 2]


def test_a_copy_counts_once_and_another_result_of_the_same_run_is_refused(folder: Path) -> None:
    runs = two(folder, (0.9, 0.92), (0.8, 0.81))
    copy, other = packed(folder, 0.92, 1, trace=(2,)), packed(folder, 0.921, 1)
    assert compared([*runs, copy]) == compared(runs)
    with pytest.raises(LabelNoiseError, match="same run with different results") as raised:
        compared([*runs, other])
    assert str(runs[1].path) in str(raised.value)
    assert str(other.path) in str(raised.value)


def names(runs: Sequence[Run]) -> list[str]:
    return [group.name for group in compared(runs).groups]


def test_a_name_says_what_differs_and_no_more(folder: Path) -> None:
    def run(**asked: Any) -> Run:
        return packed(folder, 0.9, **asked)

    assert names([run(), run(method="cce")]) == ["bare", "cce"]
    assert names([run(), run(preset="paper")]) == [
        "bare, preset recommended",
        "bare batch, preset paper",
    ]
    assert names([run(), run(changes={"epochs": 7}), run(noise="symmetric:0.2")]) == [
        "bare, epochs 50",
        "bare, epochs 7",
        "bare, epochs 50",
    ]
    assert names([run(), run(net="lenet")]) == [
        "bare, net mlp",
        "bare, net lenet",
    ]
    assert names([run(), run(method="meta-ren", trusted="validation")]) == [
        "bare",
        "meta-ren, trusted validation",
    ]


def test_settings_that_a_label_leaves_out_still_tell_groups_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labelnoise.experiment.compare.label", lambda run: "same")
    runs = [packed(folder, 0.9, preset="paper", fields=more) for more in ({}, {"kappa": 2.0})]
    found = names(runs)
    assert len(set(found)) == 2
    assert all(name.startswith("same {") for name in found)


def test_accuracy_of_the_better_of_two_networks_is_told(folder: Path) -> None:
    runs = [packed(folder, 0.9, last={"test_accuracy_mean": 0.9})]
    runs.append(packed(folder, 0.8, method="cce", last={"test_accuracy_mean": 0.75}))
    (note,) = compared(runs).notes
    assert note.startswith("cce (dataset digits")
    assert note.endswith("the mean of all is 75.00")
    assert note in words(shown(compared(runs)))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_fewer_than_two_groups_is_an_error(folder: Path, number: int) -> None:
    with pytest.raises(LabelNoiseError, match="name runs of two methods or settings at least"):
        compared([packed(folder, 0.9, seed) for seed in range(number)])


def test_an_unfinished_run_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    finished = packed(folder, 0.9)
    (tmp_path / "header.json").write_text(json.dumps(finished.header))
    with pytest.raises(LabelNoiseError, match=f"{tmp_path} is not finished"):
        compared([finished, Run(tmp_path)])


# --- what is shown --------------------------------------------------------------------------------


def test_json_has_all_and_nothing_that_json_has_not(folder: Path) -> None:
    runs = two(folder, (0.95, 0.96, 0.94), (0.75, 0.7, 0.76))
    runs.append(packed(folder, 0.5, noise="pair:0.1", last={"label_recall": None}))
    report = json.loads(json.dumps(compared(runs).as_dict(), allow_nan=False))
    first = report["groups"][0]
    assert first["name"] == "bare"
    assert first["accuracies"] == {"0": 0.95, "1": 0.96, "2": 0.94}
    assert first["test_accuracy"] == {
        "mean": pytest.approx(0.95),
        "deviation": pytest.approx(0.01),
    }
    assert first["runs"] == [str(run.path) for run in runs[:3]]
    pair = report["pairs"][0]
    assert pair["first"] == {"name": "bare", "data": first["data"]}
    assert pair["second"]["name"] == "cce"
    assert (pair["seeds"], pair["verdict"]) == ([0, 1, 2], "better")
    assert len(pair["interval"]) == 2
    assert [other["verdict"] for other in report["pairs"][1:]] == ["not comparable"] * 2
    assert report["groups"][2]["label_recall"] == {"mean": None, "deviation": None}
    assert report["shared"] == "net mlp, preset recommended, epochs 50"
    assert report["notes"] == []


def test_tables_of_two_groups(folder: Path) -> None:
    text = shown(compared(two(folder, (0.95, 0.93, 0.96, 0.94), (0.93, 0.92, 0.93, 0.94))))
    assert "dataset digits, noise symmetric:0.5, data_seed 0, net mlp, preset recommended" in words(
        text
    )
    assert "94.50 ± 1.29" in text
    line = next(line for line in text.splitlines() if "+1.50" in line)
    assert words(line) == "bare cce 4 +1.50 -0.55 to +3.55 0.1027 no clear difference"
    assert "Holm" not in text
    assert "not comparable" not in text
    assert "Wilcoxon" not in text


def test_tables_by_data_with_adjusted_p_values(folder: Path) -> None:
    runs = two(folder, [0.95, 0.93, 0.96, 0.94, 0.97, 0.92], [0.3, 0.31, 0.29, 0.3, 0.3, 0.3])
    runs += [packed(folder, 0.9 + s / 100, s, preset="paper") for s in range(3)]
    runs.append(packed(folder, 0.5, noise="pair:0.1"))
    tables = comparison_tables(compared(runs))
    assert len(tables) == 3  # groups and pairs of the first data, groups of the second
    text = shown(compared(runs))
    assert "p adjusted by Holm for 3 pairs, intervals are not" in words(text)
    assert "not comparable, different data: 3 of 6 pairs" in words(text)
    assert text.count("Wilcoxon") == 2
    assert "<0.0001" in text


def test_tables_of_one_seed_say_so(folder: Path) -> None:
    text = shown(compared(two(folder, [0.95], [0.75])))
    line = next(line for line in text.splitlines() if "+20.00" in line)
    assert words(line) == "bare cce 1 +20.00 one seed: no significance"


def test_runs_that_were_trained(tmp_path: Path) -> None:
    runs = [
        train("digits", method=method, noise="symmetric:0.5", epochs=1, seed=seed, out=tmp_path)
        for method in ("bare", "cce")
        for seed in (0, 1)
    ]
    pair = only_pair(runs)
    accuracies = [run.rows[-1]["test_accuracy"] for run in runs]
    expected = (accuracies[0] - accuracies[2] + accuracies[1] - accuracies[3]) / 2
    assert pair.difference == pytest.approx(expected, abs=1e-9)
    assert pair.seeds == (0, 1)
