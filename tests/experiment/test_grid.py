"""Experiments as data: what the files say, cell by cell, and what a wrong file is told."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import labelnoise
from labelnoise.cli import main
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.grid import (
    Cell,
    cells,
    check_classes,
    experiment_named,
    experiments,
    missing,
    parse_experiment,
)
from labelnoise.experiment.published import published
from labelnoise.experiment.reproduce import plan
from labelnoise.experiment.spec import Spec

ROOT = Path(__file__).parents[2]

TRIALS = {  # the names that the issue asks for; five trials unless the paper has one
    "mnist-accuracy": 5,
    "cifar10-accuracy": 5,
    "mnist-arbitrary": 5,
    "cifar10-arbitrary": 5,
    "noise-rates": 5,
    "batch-size": 5,
    "kappa": 5,
    "long-training": 5,
    "run-time": 1,
    "figure-accuracy": 5,
    "figure-precision": 5,
    "figure-recall": 5,
    "figure-fraction": 5,
    "figure-misestimated-rate": 5,
    "figure-thresholds": 1,
    "clothing1m": 1,
    "food101n": 1,
}
OURS = {"rule-bench": 5, "rule-design": 5, "many-classes": 3}  # not of the paper
LARGE = ("clothing1m", "food101n")  # test_recipes.py has them
RUNNABLE = tuple(name for name in TRIALS if name not in LARGE)

SEVEN = {
    "coteaching", "coteaching-plus", "meta-ren", "meta-net", "curriculum-loss", "cce", "bare",
}  # fmt: skip
TOLD = {"coteaching", "coteaching-plus", "curriculum-loss"}  # the methods that take a noise rate
MNIST = {
    ("mnist", "symmetric:0.5"),
    ("mnist", "symmetric:0.7"),
    ("mnist", "class-conditional:0.45"),
}
CIFAR10 = {
    ("cifar10", "symmetric:0.3"),
    ("cifar10", "symmetric:0.7"),
    ("cifar10", "class-conditional:0.4"),
}
HARD = {  # where the paper varies kappa, the length, and shows thresholds
    ("mnist", "symmetric:0.7"),
    ("mnist", "class-conditional:0.45"),
    ("cifar10", "symmetric:0.7"),
    ("cifar10", "class-conditional:0.4"),
}
SELECTED = {
    ("mnist", "symmetric:0.5"),
    ("cifar10", "symmetric:0.7"),
    ("cifar10", "class-conditional:0.4"),
}
SELECTING = {"coteaching", "coteaching-plus", "curriculum-loss", "bare"}

OWN = """
title = "Own"
explains = "an experiment of one's own"

[base]
dataset = "digits"
noise = "symmetric:0.5"
epochs = 2
noise_rate = "nominal"

[axes]
method = ["cce", "bare", "coteaching"]
batch_size = [32, 64]

[[patch]]
when = { method = "cce" }
set = { lr = 0.1 }

[[patch]]
when = { method = "cce", batch_size = 64 }
set = { lr = 0.2, epochs = 3 }

[[patch]]
when = { lr = 0.1 }
set = { weight_decay = 0.5 }

[table]
block = "noise"
line = "method"
"""


def spec_of(cell: Cell, epochs: int | None = None, trace: tuple[float, ...] = ()) -> Spec:
    """What a cell asks for on data that are not here."""
    ask = cell.ask(3, epochs, trace)
    net = {"mnist": "mlp", "cifar10": "cnn", "digits": "mlp"}[ask.data]
    net = net if ask.net == "auto" else ask.net
    return ask.spec(dataset=ask.data, digest="d" * 32, net=net, known=True)


def every_spec() -> Iterator[tuple[str, Cell, Spec]]:
    for name in RUNNABLE:
        for cell in cells(experiment_named(name)):
            yield name, cell, spec_of(cell)


def asked_for(name: str) -> list[tuple[str, str, str]]:
    found = cells(experiment_named(name))
    return [tuple(str(c.settings[k]) for k in ("dataset", "noise", "method")) for c in found]  # type: ignore[misc]


def own(text: str, name: str = "own.toml") -> list[Cell]:
    return cells(parse_experiment(text, name))


# --- what is shipped ------------------------------------------------------------------------------


def test_every_experiment_of_the_issue_is_there_with_its_trials() -> None:
    found = experiments()
    assert {name: one.trials for name, one in found.items()} == TRIALS | OURS
    for name, one in found.items():
        assert one.title, name
        assert one.explains, name
        assert "\n" not in one.title + one.explains, name
        assert (one.table is None) == name.startswith("figure-"), name
        assert (one.figure is None) != name.startswith("figure-"), name


def test_list_experiments_names_and_explains_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "experiments"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert {name: bool(explains) for name, explains in lines} == dict.fromkeys(TRIALS | OURS, True)


@pytest.mark.parametrize(
    ("name", "settings", "methods"),
    [
        ("mnist-accuracy", MNIST, SEVEN),
        ("cifar10-accuracy", CIFAR10, SEVEN),
        ("mnist-arbitrary", {("mnist", "matrix:mnist-arbitrary")}, SELECTING),
        ("cifar10-arbitrary", {("cifar10", "matrix:cifar10-arbitrary")}, SELECTING),
        ("long-training", HARD, {"coteaching", "coteaching-plus", "meta-ren", "bare"}),
        ("run-time", {("mnist", "symmetric:0.5"), ("cifar10", "symmetric:0.5")}, SEVEN),
        ("figure-accuracy", MNIST | CIFAR10, SEVEN),
        ("figure-precision", MNIST | CIFAR10, SELECTING | {"meta-ren"}),
        ("figure-recall", SELECTED, SELECTING),
        ("figure-fraction", SELECTED, SELECTING),
        (
            "figure-misestimated-rate",
            {("mnist", "symmetric:0.7"), ("cifar10", "symmetric:0.7")},
            SELECTING | {"cce"},
        ),
        ("figure-thresholds", HARD, {"bare"}),
    ],
)
def test_cells_are_every_setting_by_every_method(
    name: str, settings: set[tuple[str, str]], methods: set[str]
) -> None:
    found = asked_for(name)
    assert len(found) == len(settings) * len(methods)
    assert set(found) == {(*setting, method) for setting in settings for method in methods}


def test_kappa_is_the_papers_seven_values_in_four_settings() -> None:
    found = [spec for name, _, spec in every_spec() if name == "kappa"]
    asked = {(spec.dataset, spec.noise, spec.settings["kappa"]) for spec in found}
    kappas = (-1, 0, 0.5, 0.75, 1, 1.25, 1.5)
    assert asked == {(*setting, kappa) for setting in HARD for kappa in kappas}
    assert len(found) == 28
    assert {spec.settings["threshold"] for spec in found} == {"batch"}


def test_batch_size_is_three_sizes_in_seven_settings() -> None:
    found = [spec for name, _, spec in every_spec() if name == "batch-size"]
    asked = {(spec.dataset, spec.noise, spec.training.batch_size) for spec in found}
    settings = MNIST | CIFAR10 | {("mnist", "symmetric:0.3")}
    assert asked == {(*setting, size) for setting in settings for size in (64, 128, 256)}
    assert len(found) == 21


def test_noise_rates_are_those_of_table_15() -> None:
    symmetric = {("mnist", rate) for rate in (1, 2, 3, 4, 5, 6, 7)}
    symmetric |= {("cifar10", rate) for rate in (1, 2, 3, 4, 6, 7)}
    expected = {(dataset, f"symmetric:0.{rate}", "bare") for dataset, rate in symmetric}
    expected |= {("mnist", f"class-conditional:{rate}", "bare") for rate in (0.2, 0.45)}
    expected |= {("cifar10", f"class-conditional:{rate}", "bare") for rate in (0.2, 0.4)}
    found = asked_for("noise-rates")
    assert set(found) == expected
    assert len(found) == 17


def test_every_cell_of_every_experiment_is_a_valid_spec_of_the_papers_preset() -> None:
    seen = set()
    for name, _, spec in every_spec():
        assert spec.preset == "paper", name
        assert spec.training.epochs == (500 if name == "long-training" else 200), name
        assert spec.training.lr == 2e-4, name
        assert (spec.training.batch_size == 128) or name == "batch-size"
        assert (spec.seed, spec.data_seed) == (3, 0)
        if spec.method == "bare":
            assert spec.settings["threshold"] == "batch", name
        seen.add(name)
    assert seen == set(RUNNABLE)


def test_epochs_from_the_command_line_come_before_the_experiments() -> None:
    for name in RUNNABLE:
        assert {spec_of(c, 2).training.epochs for c in cells(experiment_named(name))} == {2}, name


def test_methods_that_take_no_noise_rate_are_told_none() -> None:
    for name, cell, spec in every_spec():
        if spec.method not in TOLD:
            assert "noise_rate" not in cell.settings, name
            assert spec.noise_rate is None, name
            assert "noise_rate" not in spec.settings, name


def test_the_others_are_told_what_the_paper_tells_them() -> None:
    given = {"mnist-arbitrary": 0.45, "cifar10-arbitrary": 0.4, "figure-misestimated-rate": 0.5}
    nominal = {
        "symmetric:0.3": 0.3,
        "symmetric:0.5": 0.5,
        "symmetric:0.7": 0.7,
        "class-conditional:0.4": 0.4,
        "class-conditional:0.45": 0.45,
    }
    told = set()
    for name, _, spec in every_spec():
        if spec.method in TOLD:
            rate = given.get(name) or nominal[spec.noise]
            assert spec.settings["noise_rate"] == rate, (name, spec.method, spec.noise)
            assert spec.noise_rate is None  # the number stands in the method's own field
            told.add(name)
    assert told == {
        name
        for name in RUNNABLE
        if name not in {"noise-rates", "batch-size", "kappa", "figure-thresholds"}
    }


def test_methods_that_need_trusted_samples_get_the_validation_part() -> None:
    sources = {(spec.method, spec.trusted) for _, _, spec in every_spec()}
    assert sources == {
        (method, "validation" if method.startswith("meta-") else None) for method in SEVEN
    }


@pytest.mark.parametrize(
    ("epochs", "traced"), [(None, (1, 100, 200)), (4, (1, 2, 4)), (1, (1,)), (3, (1, 2, 3))]
)
def test_thresholds_are_traced_in_the_first_middle_and_last_epoch(
    epochs: int | None, traced: tuple[int, ...]
) -> None:
    experiment = experiment_named("figure-thresholds")
    assert experiment.figure is not None
    moments = tuple(experiment.figure.trace)
    found = cells(experiment)
    assert {spec_of(cell, epochs, moments).trace for cell in found} == {traced}


def test_thresholds_are_shown_for_the_classes_of_the_papers_panels() -> None:
    experiment = experiment_named("figure-thresholds")
    assert experiment.figure is not None
    assert experiment.figure.classes == {
        "mnist, symmetric:0.7": [0, 3, 4],
        "mnist, class-conditional:0.45": [0, 3, 4],
        "cifar10, symmetric:0.7": [7, 8, 9],
        "cifar10, class-conditional:0.4": [6, 7, 8],
    }
    panels = {cell.place[experiment.figure.panel] for cell in cells(experiment)}
    assert panels == set(experiment.figure.classes)


@pytest.mark.parametrize("name", [name for name in RUNNABLE if not name.startswith("figure-")])
def test_a_tables_cells_are_the_papers_rows_one_to_one(name: str) -> None:
    experiment = experiment_named(name)
    assert experiment.table is not None
    rows = [number for table in experiment.published for number in published().tables[table]]
    found = [
        published().find(
            experiment.published, spec_of(cell), metric.replace("train_seconds", "run_seconds")
        )
        for metric in experiment.table.metrics
        for cell in cells(experiment)
    ]
    assert None not in found
    assert sorted(map(repr, found)) == sorted(map(repr, rows))


def test_what_this_version_does_not_have_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = resources.files("labelnoise.experiments").joinpath("food101n.toml").read_text()
    changed = shipped.replace('"food101n"', '"food303n"').replace('"resnet50"', '"resnet500"')
    path = tmp_path / "later.toml"
    path.write_text(changed.replace('"steps"', '"stairs"'))
    lacks = missing(cells(experiment_named(str(path))))
    assert [each.split(" (")[0] for each in lacks] == [
        "data set 'food303n'",
        "net 'resnet500'",
        "schedule 'stairs'",
    ]
    with pytest.raises(LabelNoiseError, match=r"missing.*'food303n'.*'resnet500'"):
        plan(str(path), out=tmp_path)
    assert main(["reproduce", str(path), "--out", str(tmp_path / "runs")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "resnet50" in captured.err
    assert list(tmp_path.iterdir()) == [path]


def test_the_bench_of_rules_has_every_kind_of_problem_in_pairs() -> None:
    halves = [experiment_named(name).axes["problem"] for name in ("rule-design", "rule-bench")]
    told = [[each for each in half if isinstance(each, dict)] for half in halves]
    assert len({str(problem["name"]) for half in told for problem in half}) == 32
    for half in told:
        assert len(half) == 16
        noises = {str(problem["noise"]).split(":")[0] for problem in half}
        assert {"none", "symmetric", "instance"} < noises
        assert noises & {"pair", "class-conditional"}
        rates = {str(problem["noise"]) for problem in half}
        assert {"symmetric:0.2", "symmetric:0.4", "symmetric:0.7", "symmetric:0.05"} <= rates
        data = " ".join(str(problem["dataset"]) for problem in half)
        for kind in ("/rest", "hundred", "imbalance=10", "imbalance=50", "rare", "cifar10"):
            assert kind in data
    sizes = {problem.get("batch_size", 128) for half in told for problem in half}
    assert sizes == {32, 64, 128, 256, 512}


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_others_lack_nothing(name: str) -> None:
    assert missing(cells(experiment_named(name))) == []


def test_files_lie_in_the_package_that_the_wheel_is_made_of() -> None:
    shipped = {file.name for file in resources.files("labelnoise.experiments").iterdir()}
    assert {f"{name}.toml" for name in TRIALS} | {"published.toml", "__init__.py"} <= shipped
    source = Path(labelnoise.__file__).parent
    if source != ROOT / "src" / "labelnoise":
        pytest.skip("installed, not a checkout")
    target = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert target == {"targets": {"wheel": {"packages": ["src/labelnoise"]}}}  # nothing left out
    files = {path.name for path in (ROOT / "src/labelnoise/experiments").glob("*.toml")}
    assert files == {f"{name}.toml" for name in TRIALS | OURS} | {"published.toml"}


# --- what one's own file can say ------------------------------------------------------------------


def test_axes_multiply_in_their_order_and_come_before_the_base() -> None:
    found = own(OWN.replace("epochs = 2", "epochs = 2\nmethod = 'meta-ren'"))
    assert [tuple(cell.place.values()) for cell in found] == [
        ("cce", "batch_size=32"),
        ("cce", "batch_size=64"),
        ("bare", "batch_size=32"),
        ("bare", "batch_size=64"),
        ("coteaching", "batch_size=32"),
        ("coteaching", "batch_size=64"),
    ]
    assert [(cell.settings["method"], cell.settings["batch_size"]) for cell in found] == [
        (method, size) for method in ("cce", "bare", "coteaching") for size in (32, 64)
    ]


def test_patches_reach_the_cells_they_match_one_after_the_other() -> None:
    small, large, bare, *_ = own(OWN)
    assert (small.settings["lr"], small.settings["epochs"]) == (0.1, 2)
    assert (large.settings["lr"], large.settings["epochs"]) == (0.2, 3)
    assert "lr" not in bare.settings
    assert small.settings["weight_decay"] == 0.5  # by the patch before it
    assert "weight_decay" not in large.settings
    trainings = [spec_of(cell).training for cell in own(OWN)]
    assert [(one.lr, one.epochs, one.batch_size) for one in trainings[:3]] == [
        (0.1, 2, 32),
        (0.2, 3, 64),
        (2e-4, 2, 32),
    ]


def test_a_noise_rate_for_all_goes_to_those_who_take_one() -> None:
    rates = {spec.method: spec.settings.get("noise_rate") for spec in map(spec_of, own(OWN))}
    assert rates == {"cce": None, "bare": None, "coteaching": 0.5}


def test_a_value_of_an_axis_may_be_a_table() -> None:
    text = """
        title = "Own"
        explains = "pairs"
        [base]
        dataset = "digits"
        noise = "pair:0.1"
        [axes]
        way = [
            { method = "bare", kappa = 0.5, threshold = "class" },
            { method = "coteaching", noise_rate = 0.25 },
            { method = "cce" },
        ]
        [table]
        block = "dataset"
        line = "way"
    """
    bare, peers, cce = own(text)
    assert [cell.place["way"] for cell in (bare, peers, cce)] == [
        "bare, kappa=0.5, class",
        "coteaching, noise_rate=0.25",
        "cce",
    ]
    assert spec_of(bare).settings == {
        "threshold": "class",
        "kappa": 0.5,
        "empty": "all",
        "backward": "auto",
    }
    assert spec_of(peers).settings["noise_rate"] == 0.25
    assert spec_of(cce).preset == "paper"  # unless the file says another one


@pytest.mark.parametrize(
    ("methods", "only", "left"),
    [
        (("cce",), None, [("cce", "batch_size=32"), ("cce", "batch_size=64")]),
        (
            (),
            {"batch_size": "64"},
            [("cce", "batch_size=64"), ("bare", "batch_size=64"), ("coteaching", "batch_size=64")],
        ),
        (
            ("bare", "cce"),
            {"batch_size": "32"},
            [("cce", "batch_size=32"), ("bare", "batch_size=32")],
        ),
        ((), {"lr": "0.2"}, [("cce", "batch_size=64")]),
        (
            (),
            {"dataset": "digits", "method": "bare"},
            [("bare", "batch_size=32"), ("bare", "batch_size=64")],
        ),
    ],
)
def test_methods_and_only_keep_the_cells_that_match(
    methods: tuple[str, ...], only: dict[str, str] | None, left: list[tuple[str, str]]
) -> None:
    found = cells(parse_experiment(OWN, "own.toml"), methods, only)
    assert [tuple(cell.place.values()) for cell in found] == left


def test_what_ratios_are_taken_to_is_kept_with_the_methods_that_are_chosen() -> None:
    found = cells(experiment_named("run-time"), ["bare"], {"dataset": "mnist"})
    assert [cell.settings["method"] for cell in found] == ["cce", "bare"]


@pytest.mark.parametrize(
    ("chosen", "hint"),
    [
        ({"methods": ["bear"]}, "unknown method 'bear': did you mean 'bare'?"),
        ({"only": {"batchsize": "32"}}, "unknown setting 'batchsize': did you mean 'batch_size'?"),
        ({"only": {"batch_size": "33"}}, "no run is left"),
        ({"methods": ["meta-ren"]}, "no run is left"),
    ],
)
def test_a_wrong_choice_is_told_on_one_line(chosen: dict[str, Any], hint: str) -> None:
    with pytest.raises(LabelNoiseError) as raised:
        cells(parse_experiment(OWN, "own.toml"), **chosen)
    assert hint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "hints"),
    [
        ('title = "Own"', 'title = "Own"\ntitel = "x"', ["'titel'", "'title'"]),
        ('explains = "an', 'trails = 3\nexplains = "an', ["'trails'", "'trials'"]),
        ('title = "Own"', "", ["title", "required"]),
        ('title = "Own"', 'title = "Own"\ntrials = 0', ["trials"]),
        ('method = ["cce", "bare", "coteaching"]', 'method = "cce"', ["axes.method"]),
        ("[axes]", "[axes", ["not TOML", "line"]),
    ],
)
def test_a_wrong_file_is_named_and_told_on_one_line(old: str, new: str, hints: list[str]) -> None:
    assert old in OWN
    with pytest.raises(LabelNoiseError) as raised:
        parse_experiment(OWN.replace(old, new, 1), "my/own.toml")
    for hint in ("my/own.toml", *hints):
        assert hint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("title", "titel", "'title'"),
        ('line = "method"', 'line = "method"\nmetric = ["test_accuracy"]', "'metrics'"),
        ('block = "noise"', 'blok = "noise"', "'block'"),
        ("set = { lr = 0.1 }", "sets = { lr = 0.1 }", "'set'"),
    ],
)
def test_any_misspelt_key_suggests_the_nearest(old: str, new: str, hint: str) -> None:
    with pytest.raises(LabelNoiseError) as raised:
        parse_experiment(OWN.replace(old, new, 1), "own.toml")
    assert f"did you mean {hint}?" in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ('dataset = "digits"', 'datset = "digits"', "'dataset'"),
        ('line = "method"', 'line = "metod"', "'method'"),
        ('line = "method"', 'line = "method"\nmetrics = ["test_acuracy"]', "'test_accuracy'"),
        ('title = "Own"', 'title = "Own"\npublished = ["T44"]', "'T4'"),
        ('when = { method = "cce" }', 'when = { metod = "cce" }', "'method'"),
        ('[table]\nblock = "noise"\nline = "method"', "", "table"),
        ('line = "method"', 'line = "method"\nover = { method = "cce" }', "'train_seconds'"),
        ("[axes]", "[axes]\nlr = []", "'lr' is empty"),
        (
            '[table]\nblock = "noise"\nline = "method"',
            '[figure]\npanel = "noise"\nline = "method"\nmetric = "test_acuracy"',
            "'test_accuracy'",
        ),
        (
            '[table]\nblock = "noise"\nline = "method"',
            '[figure]\npanel = "noise"\nline = "trace"\nmetric = "test_accuracy"\ntrace = [1.0]',
            "'thresholds_by_batch'",
        ),
        (
            '[table]\nblock = "noise"\nline = "method"',
            '[figure]\npanel = "noise"\nline = "x"\nmetric = "thresholds_by_batch"\ntrace = [1.0]',
            "[figure.classes] has no classes for 'symmetric:0.5'",
        ),
        (
            '[table]\nblock = "noise"\nline = "method"',
            '[figure]\npanel = "noise"\nline = "x"\nmetric = "thresholds_by_batch"\ntrace = [100]',
            "figure.trace.0: Input should be less than or equal to 1",
        ),
        ('line = "method"', 'line = "trace"', "unknown axis or setting 'trace'"),
        (
            'block = "noise"',
            'block = "noise_rate"',
            "not every run has a 'noise_rate': choose from batch_size, ",
        ),
        (
            'line = "method"',
            'line = "method"\nmetrics = ["train_seconds"]',
            "'train_seconds' alone, and it needs them",
        ),
        (
            'line = "method"',
            'line = "method"\nmetrics = ["train_seconds"]\nover = { metod = "cce" }',
            "'method'",
        ),
        (
            'line = "method"',
            'line = "method"\n[figure]\npanel = "noise"\nline = "method"\nmetric = "test_accuracy"',
            "either a [table] or a [figure]",
        ),
    ],
)
def test_a_file_that_cannot_work_is_told_before_anything_is_trained(
    old: str,
    new: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(OWN.replace(old, new, 1))
    assert main(["reproduce", "own.toml", "--jobs", "0"]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('dataset = "digits"', 'dataset = "mine/own.npz"'),
        ('dataset = "digits"', 'dataset = "digits"\nnet = "mine.nets:net"'),
    ],
)
def test_data_and_nets_of_ones_own_are_not_missing(old: str, new: str) -> None:
    assert missing(own(OWN.replace(old, new, 1))) == []


def test_a_misspelt_method_on_an_axis_suggests_the_nearest() -> None:
    lacks = missing(own(OWN.replace('"bare"', '"bear"', 1)))
    assert lacks == ["method 'bear' (did you mean 'bare'?)"]


def test_a_trace_of_a_class_that_the_data_do_not_have_is_refused() -> None:
    experiment = experiment_named("figure-thresholds")
    assert experiment.figure is not None
    cell = cells(experiment)[0]
    check_classes(experiment.figure, cell, 10)
    with pytest.raises(LabelNoiseError, match=r"mnist, symmetric:0\.7 has classes 0 to 3"):
        check_classes(experiment.figure, cell, 4)


def test_an_experiment_by_name_or_by_file(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    assert experiment_named(str(tmp_path / "own.toml")).title == "Own"
    assert experiment_named("kappa").title == experiments()["kappa"].title
    with pytest.raises(LabelNoiseError, match="'mnist-acuracy': did you mean 'mnist-accuracy'"):
        experiment_named("mnist-acuracy")
    with pytest.raises(LabelNoiseError, match=r"no such file: nothing\.toml"):
        experiment_named("nothing.toml")


def test_a_value_may_have_a_name_that_is_no_setting() -> None:
    text = OWN.replace(
        'method = ["cce", "bare", "coteaching"]',
        'method = [{ name = "ours", method = "bare", kappa = 0.5 }, "cce"]',
    )
    found = own(text)
    assert [cell.place["method"] for cell in found[::2]] == ["ours", "cce"]
    assert "name" not in found[0].settings
    assert found[0].ask().changes == {"kappa": 0.5}
