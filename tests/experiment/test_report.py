"""The page of all runs in a folder, as far as it can be told without a browser."""

from __future__ import annotations

import copy
import gzip
import json
import re
import statistics
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import labelnoise
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment import figure, report, table
from labelnoise.experiment.report import write_report
from labelnoise.experiment.run import train
from labelnoise.record.page import page
from labelnoise.record.run import Run, pack

Json = dict[str, Any]
EMPTY = page(resources.files("labelnoise.experiment"), "report.html", {})
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--\u2028\u2029 & \ud800"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("trained")
    return train("digits", noise="symmetric:0.5", epochs=2, out=out)


@pytest.fixture
def recorded(trained: Run) -> Json:
    return copy.deepcopy({"header": trained.header, "rows": trained.rows})


def keep(folder: Path, name: str, recorded: Json, **spec: Any) -> Path:
    """A packed run that differs from a real one in `spec`."""
    changed = copy.deepcopy(recorded)
    changed["header"]["spec"].update(spec)
    path = folder / f"{name}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(changed).encode()))
    return path


def keep_folder(folder: Path, recorded: Json) -> Path:
    """A run's folder without its end."""
    folder.mkdir(parents=True)
    (folder / "header.json").write_text(json.dumps(recorded["header"]))
    lines = [json.dumps(row) + "\n" for row in recorded["rows"]]
    (folder / "epochs.jsonl").write_text("".join(lines))
    return folder


def page_of(folder: Path) -> str:
    write_report(folder, folder / "report.html")
    return (folder / "report.html").read_text("utf-8")


def data_of(folder: Path) -> Any:
    found = re.search(r'<script type="application/json".*?>(.*?)</script>', page_of(folder), re.S)
    assert found is not None
    return json.loads(found[1])


def cells(data: Json, what: str) -> list[Json]:
    """The lines of a table, by heading."""
    titles = [column["title"] for column in data[f"{what}_columns"]]
    return [dict(zip(titles, line["cells"], strict=True)) for line in data[f"{what}s"]]


def names(data: Json) -> list[str]:
    return [line["method"] for line in cells(data, "group")]


def test_folders_and_packed_runs_are_found_at_any_depth(
    trained: Run, recorded: Json, tmp_path: Path
) -> None:
    keep(tmp_path / "a" / "b", "packed", recorded, seed=1)
    keep_folder(tmp_path / "c" / "going", recorded)
    assert write_report(tmp_path, tmp_path / "report.html") == 2
    data = data_of(tmp_path)
    done = {run["path"]: run["done"] for run in data["runs"]}
    assert done == {"a/b/packed.json.gz": True, "c/going": False}
    assert data["folder"] == tmp_path.name
    assert data["version"] == labelnoise.__version__
    assert write_report(trained.path, tmp_path / "one.html") == 1  # the folder may be a run itself


def test_a_run_has_the_numbers_that_show_prints(
    trained: Run, recorded: Json, tmp_path: Path
) -> None:
    recorded["rows"][-1]["test_accuracy_mean"] = 0.9393499999999999  # rounds down, unlike 0.93935
    keep(tmp_path, "run", recorded)
    line, summary = cells(data_of(tmp_path), "run")[0], trained.summary()
    for key, title in report.FRACTIONS.items():
        if key != "test_accuracy_mean":
            assert line[title] == table.percent(summary[key])
    assert line["mean of networks"] == "93.93"
    assert line["wrong labels"] == table.percent(summary["realised_noise_rate"])
    assert line["epochs"] == "2 of 2"
    assert line["seconds"] == f"{summary['train_seconds']:.1f}"
    assert line["method"] == table.label(trained)


def test_curves_are_percent_with_two_decimals_and_losses_five_digits(
    trained: Run, tmp_path: Path
) -> None:
    pack(trained, tmp_path)
    curves = data_of(tmp_path)["runs"][0]["curves"]
    for key, values in curves.items():
        exact = [row[key] for row in trained.rows]
        if key == "train_loss":
            assert values == [float(f"{value:.5g}") for value in exact]
        else:
            assert values == [float(f"{100 * value:.2f}") for value in exact]


def test_seeds_are_summed_up_by_mean_and_deviation(recorded: Json, tmp_path: Path) -> None:
    accuracies = [0.91, 0.94, 0.98]
    for seed, accuracy in enumerate(accuracies):
        recorded["rows"][-1]["test_accuracy"] = accuracy
        keep(tmp_path, f"seed{seed}", recorded, seed=seed, data_seed=seed, trace=[seed])
    (line,) = cells(data_of(tmp_path), "group")
    mean, deviation = statistics.mean(accuracies), statistics.stdev(accuracies)
    assert line["test accuracy"] == f"{100 * mean:.2f} ± {100 * deviation:.2f}"
    assert (line["trials"], line["seeds"], line["data seeds"]) == ("3", "0, 1, 2", "0, 1, 2")


def test_what_is_no_finished_further_trial_does_not_count(
    trained: Run, recorded: Json, tmp_path: Path
) -> None:
    pack(trained, tmp_path)
    pack(trained, tmp_path / "copy")
    recorded["header"]["machine"] = "another"
    keep(tmp_path, "again", recorded)
    recorded["header"]["spec"]["seed"] = 1
    keep_folder(tmp_path / "going", recorded)
    data = data_of(tmp_path)
    (line,) = cells(data, "group")
    assert len(data["runs"]) == 3
    assert data["copies"] == 1
    assert data["groups"][0]["unfinished"] == 1
    assert line["trials"] == "1"
    assert line["test accuracy"] == table.percent(trained.summary()["test_accuracy"])


def test_a_run_before_its_first_epoch_is_shown(recorded: Json, tmp_path: Path) -> None:
    recorded["rows"] = []
    keep_folder(tmp_path / "new", recorded)
    data = data_of(tmp_path)
    assert cells(data, "run")[0]["epochs"] == "0 of 2"
    assert cells(data, "run")[0]["test accuracy"] == "-"
    assert cells(data, "group")[0]["test accuracy"] == "-"
    assert set(map(len, data["runs"][0]["curves"].values())) == {0}


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b"{}"),
        lambda path: path.write_bytes(gzip.compress(b'{"header": {}, "rows": []}')),
        lambda path: path.write_bytes(gzip.compress(b'{"header": 1, "rows": 2}')),
        lambda path: path.write_bytes(gzip.compress(b"[" * 100_000)),
    ],
)
def test_a_damaged_run_is_named_and_the_others_are_shown(
    recorded: Json, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    keep(tmp_path, "good", recorded)
    damage(keep(tmp_path, "bad", recorded, seed=1))
    data = data_of(tmp_path)
    assert [run["path"] for run in data["runs"]] == ["good.json.gz"]
    assert [each["path"] for each in data["damaged"]] == ["bad.json.gz"]
    assert data["damaged"][0]["reason"]
    assert str(tmp_path) not in data["damaged"][0]["reason"]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("header", "spec", "settings"), None),
        (("header", "spec", "seed"), "nonsense"),
        (("header", "spec", "method"), ["bare"]),
        (("header", "spec", "training"), {}),
        (("header", "classes"), None),
        (("header", "realised_noise", "rate"), "nonsense"),
        (("rows", 0), 3),
        (("rows", 0, "test_accuracy"), "nonsense"),
        (("rows", 0, "train_loss"), {}),
    ],
)
def test_what_is_not_what_it_should_be_is_damage(
    recorded: Json, tmp_path: Path, where: tuple[str | int, ...], value: object
) -> None:
    keep(tmp_path, "good", recorded)
    place: Any = recorded
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    keep(tmp_path, "bad", recorded)
    data = data_of(tmp_path)
    assert len(data["runs"]) == len(data["damaged"]) == 1


def test_a_page_of_damaged_runs_only_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "header.json").write_text("{")
    assert write_report(tmp_path, tmp_path / "report.html") == 0
    assert data_of(tmp_path)["damaged"][0]["path"] == tmp_path.name


def test_without_any_run_one_line_says_what_to_do(recorded: Json, tmp_path: Path) -> None:
    for folder, says in [
        (tmp_path / "nothing", "does not exist: name the folder"),
        (keep(tmp_path / "sub", "run", recorded), "is not a folder: name the folder"),
        (tmp_path / "empty", "no run in .*: make one with `labelnoise train`"),
    ]:
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(LabelNoiseError, match=says) as raised:
            write_report(folder, tmp_path / "report.html")
        assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(LabelNoiseError, match="cannot write"):
        write_report(tmp_path, tmp_path / "no" / "folder" / "report.html")


def test_names_have_the_fewest_settings_that_tell_apart(recorded: Json, tmp_path: Path) -> None:
    training = recorded["header"]["spec"]["training"]
    keep(tmp_path, "a", recorded, preset="one")
    keep(tmp_path, "b", recorded, preset="two")
    keep(tmp_path, "c", recorded, preset="two", training={**training, "lr": 0.5})
    keep(tmp_path, "d", recorded, method="cce", settings={}, preset="one")
    lr = training["lr"]
    label = table.label(Run(tmp_path / "a.json.gz"))
    assert names(data_of(tmp_path)) == [
        f"{label}, preset one",
        f"{label}, preset two, lr 0.5" if lr > 0.5 else f"{label}, preset two, lr {lr}",
        f"{label}, preset two, lr {lr}" if lr > 0.5 else f"{label}, preset two, lr 0.5",
        "cce",
    ]


def test_what_an_older_version_did_not_record_is_the_default(
    recorded: Json, tmp_path: Path
) -> None:
    keep(tmp_path, "new", recorded, method="cce", settings={"kind": None}, noise_rate=None)
    del recorded["header"]["spec"]["noise_rate"]
    keep(tmp_path, "old", recorded, method="cce", settings={}, seed=1)
    assert names(data_of(tmp_path)) == ["cce"]


def test_another_version_of_the_data_is_another_data_set(recorded: Json, tmp_path: Path) -> None:
    keep(tmp_path, "a", recorded, digest="11112222aaaa")
    keep(tmp_path, "b", recorded, digest="33334444bbbb")
    data = data_of(tmp_path)
    assert [line["data set"] for line in cells(data, "run")] == [
        "digits 11112222",
        "digits 33334444",
    ]
    assert len(data["places"]) == 2


def test_a_method_keeps_its_line_from_chart_to_chart(recorded: Json, tmp_path: Path) -> None:
    for noise, rate in [("symmetric:0.2", 0.2), ("symmetric:0.5", 0.5)]:
        keep(tmp_path, f"co-{rate}", recorded, method="own", settings={"r": rate}, noise=noise)
        keep(tmp_path, f"cce-{rate}", recorded, method="cce", settings={}, noise=noise)
        keep(tmp_path, f"more-{rate}", recorded, method="own", settings={"r": 0.1}, noise=noise)
    data = data_of(tmp_path)
    looks = {
        (line["method"], line["noise"]): group["look"]
        for line, group in zip(cells(data, "group"), data["groups"], strict=True)
    }
    assert looks["own r=0.2", "symmetric:0.2"] == looks["own r=0.5", "symmetric:0.5"]
    assert looks["own r=0.1", "symmetric:0.2"] == looks["own r=0.1", "symmetric:0.5"]
    for place in data["places"]:
        assert len({data["groups"][number]["look"] for number in place["groups"]}) == 3


def test_columns_that_say_nothing_are_left_out(recorded: Json, tmp_path: Path) -> None:
    def shown(data: Json) -> set[str]:
        return {column["title"] for column in data["run_columns"] if column["shown"]}

    for row in recorded["rows"]:
        del row["test_accuracy_mean"]  # as in the rows of older versions
    keep(tmp_path, "a", recorded)
    assert not shown(data_of(tmp_path)) & set(report.OPTIONAL)
    recorded["rows"][-1]["test_accuracy_mean"] = 0.5
    keep(tmp_path, "b", recorded, data_seed=3)
    assert {"mean of networks", "data seed"} <= shown(data_of(tmp_path))


def test_details_hold_spec_versions_and_realised_noise(recorded: Json, tmp_path: Path) -> None:
    recorded["header"]["classes"] = [f"class {number}" for number in range(30)]
    keep(tmp_path, "run", recorded)
    run = data_of(tmp_path)["runs"][0]
    about = {title: dict(items) for title, items in run["about"]}
    header = recorded["header"]
    assert about["Spec"]["training.batch_size"] == str(header["spec"]["training"]["batch_size"])
    assert about["Made with"]["versions.torch"] == header["versions"]["torch"]
    assert about["Made with"]["threads"] == str(header["threads"])
    assert about["Data"]["classes"].endswith("class 19, and 10 more")
    assert about["Data"]["wrong labels"].endswith(" %")
    assert len(run["transition"]["rows"]) == 10


def test_no_text_of_a_run_can_end_the_data_or_start_a_script(
    recorded: Json, tmp_path: Path
) -> None:
    recorded["header"]["classes"] = [HOSTILE] * 10
    recorded["header"]["versions"] = {HOSTILE: HOSTILE}
    recorded["header"]["spec"]["settings"] = {HOSTILE: HOSTILE}
    keep(tmp_path, "<img src=x onerror=alert(3)>", recorded, method=HOSTILE, dataset=HOSTILE)
    text, data = page_of(tmp_path), data_of(tmp_path)
    assert text.count("</script") == EMPTY.count("</script")
    assert text.count("<img") == text.count("<!--\u2028") == 0
    assert "\u2028" not in text
    assert data["runs"][0]["method"] == HOSTILE
    assert data["damaged"] == []


def test_numbers_that_json_has_no_word_for_are_not_known(recorded: Json, tmp_path: Path) -> None:
    recorded["rows"][0]["train_loss"] = float("nan")
    recorded["rows"][1]["label_precision"] = float("inf")
    recorded["header"]["scaling"] = {"shift": float("nan")}
    keep(tmp_path, "run", recorded)
    data = data_of(tmp_path)
    assert data["runs"][0]["curves"]["train_loss"][0] is None
    assert cells(data, "run")[0]["label precision"] == "-"


def test_the_page_stays_small(recorded: Json, tmp_path: Path) -> None:
    """A tenth of 200 runs of 200 epochs in less than a tenth of 6 MB."""
    recorded["rows"] *= 100
    for seed in range(20):
        keep(tmp_path, f"seed{seed}", recorded, seed=seed)
    assert len(page_of(tmp_path)) < 600_000


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    assert re.search(r">\{\}</script>", EMPTY)
    assert "{{" not in EMPTY
    assert set(re.findall(r"https?://[^\s\"'<>]*", EMPTY)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\bsrc=|@import|url\(|fetch\(|XMLHttpRequest|innerHTML", EMPTY)
    assert "default-src 'none'" in EMPTY
    assert all(target.startswith("#") for target in re.findall(r'href="(.*?)"', EMPTY))


def test_lines_look_as_in_the_figure() -> None:
    colours = re.findall(r"--line-\d: (\S+);", EMPTY)
    assert colours == [*(colour.lower() for colour in figure.COLOURS[:-1]), "var(--ink)"]
    dashes = re.search(r"DASHES = (\[.*?\])", EMPTY)
    assert dashes is not None
    assert len(json.loads(dashes[1])) * len(colours) == report.LOOKS
