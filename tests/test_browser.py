"""The report in a real browser, opened from disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from labelnoise.experiment.report import write_report
from labelnoise.experiment.run import train
from labelnoise.record.run import Run

pytestmark = pytest.mark.long

HOSTILE = "</script><img src=x onerror='window.harm=1'><script>window.harm=2</script>\u2028"
EPOCHS = 3

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of BARE and one of cross-entropy at one noise, BARE at another."""
    out = tmp_path_factory.mktemp("browser") / "runs"
    torch.set_num_threads(1)
    for method, noise, seed in [
        ("bare", "symmetric:0.5", 0),
        ("bare", "symmetric:0.5", 1),
        ("cce", "symmetric:0.5", 0),
        ("bare", "none", 0),
    ]:
        train("digits", method=method, noise=noise, seed=seed, epochs=EPOCHS, out=out)
    return out


@pytest.fixture
def opened(browser: Any, runs: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens the report of a folder; whatever goes wrong in the page fails the test."""
    contexts, complaints, asked = [], [], []

    def open_report(folder: Path = runs, **options: Any) -> Any:
        out = tmp_path / "report.html"
        write_report(folder, out)
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(out.as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert asked == [(tmp_path / "report.html").as_uri()] * len(contexts)
    assert complaints == []


def column(page: Any, place: str, title: str) -> list[str]:
    """The cells of a column that are shown, from top to bottom."""
    box = page.locator(place)
    titles = box.locator("thead th").all_inner_texts()
    number = titles.index(title)
    lines = box.locator("tbody tr:visible").all()
    return [line.locator("th, td").nth(number).inner_text().strip() for line in lines]


def place_of(page: Any, noise: str) -> Any:
    return page.locator(".place", has_text=f"noise {noise}")


def entry(place: Any, name: str) -> Any:
    return place.locator("button.curve", has_text=name)


def curve(place: Any, legend_entry: Any) -> Any:
    """The lines of a legend entry in the first chart."""
    number = legend_entry.get_attribute("data-group")
    return place.locator(".chart").first.locator(f"g.curve[data-group='{number}']")


def test_the_page_shows_all_runs_and_asks_for_nothing(opened: Open, tmp_path: Path) -> None:
    page = opened()
    assert page.title() == "Runs in runs"
    assert "4 runs" in page.locator("#made").inner_text()
    assert len(column(page, "#run-table", "method")) == 4
    assert len(column(page, "#group-table", "method")) == 3
    assert page.locator(".place").count() == 2
    assert page.locator("#damaged").is_hidden()
    page.screenshot(path=tmp_path / "report.png", full_page=True)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("press", ["click", "Enter", "Space"])
def test_a_legend_entry_hides_and_shows_the_seeds_of_its_curve(opened: Open, press: str) -> None:
    page = opened()
    place = place_of(page, "symmetric:0.5")
    bare = entry(place, "bare")

    def toggle() -> None:
        bare.click() if press == "click" else bare.press(press)

    lines = curve(place, bare)
    others = curve(place, entry(place, "cce"))
    assert lines.locator("path:visible").count() == 2
    assert bare.get_attribute("aria-pressed") == "true"
    toggle()
    assert bare.get_attribute("aria-pressed") == "false"
    assert lines.is_hidden()
    assert lines.locator("path:visible").count() == 0
    assert others.locator("path:visible").count() == 1
    toggle()
    assert bare.get_attribute("aria-pressed") == "true"
    assert lines.locator("path:visible").count() == 2


def test_all_curves_of_a_place_can_be_hidden_at_once(opened: Open) -> None:
    page = opened()
    place, other = place_of(page, "symmetric:0.5"), place_of(page, "none")
    place.get_by_text("hide all").click()
    assert place.locator(".chart .line:visible").count() == 0
    assert other.locator(".chart .line:visible").count() > 0
    place.get_by_text("show all").click()
    assert place.locator(".chart").first.locator(".line:visible").count() == 3


def test_lines_differ_in_colour_and_dash(opened: Open) -> None:
    page = opened()
    place = place_of(page, "symmetric:0.5")
    looks = [
        curve(place, each).evaluate(
            "g => [getComputedStyle(g).stroke, getComputedStyle(g).strokeDasharray]"
        )
        for each in place.locator("button.curve").all()
    ]
    (colour, dash), (other_colour, other_dash) = looks
    assert colour != other_colour
    assert dash != other_dash


@pytest.mark.parametrize("press", ["click", "Enter"])
def test_a_heading_sorts_up_and_down(opened: Open, press: str) -> None:
    page = opened()
    heading = page.locator("#run-table th", has_text="seconds")
    button = heading.locator("button")

    def sort() -> list[float]:
        button.click() if press == "click" else button.press(press)
        return [float(text) for text in column(page, "#run-table", "seconds")]

    assert heading.get_attribute("aria-sort") == "none"
    up = sort()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert up == sorted(up)
    down = sort()
    assert heading.get_attribute("aria-sort") == "descending"
    assert down == sorted(up, reverse=True)
    page.locator("#run-table th", has_text="method").locator("button").click()
    methods = column(page, "#run-table", "method")
    assert methods == sorted(methods)
    assert heading.get_attribute("aria-sort") == "none"


def test_a_filter_narrows_tables_curves_and_details(opened: Open) -> None:
    page = opened()
    place = place_of(page, "symmetric:0.5")
    page.fill("#text", "BARE seed1")
    assert page.locator("#shown").inner_text() == "1 of 4 runs"
    assert len(column(page, "#run-table", "method")) == 1
    assert len(column(page, "#group-table", "method")) == 1
    assert page.locator(".place:visible").count() == 1
    assert place.locator("button.curve:visible").count() == 1
    assert place.locator(".chart").first.locator("path.line:visible").count() == 1
    assert page.locator("details.run:visible").count() == 1
    page.click("#clear")
    assert page.locator("#shown").inner_text() == "all 4 runs"
    for name, value, count in [
        ("#method", "cce", 1),
        ("#noise", "none", 1),
        ("#dataset", "digits", 4),
    ]:
        page.select_option(name, value)
        assert len(column(page, "#run-table", "method")) == count
        page.select_option(name, "")
    page.fill("#text", "no such run")
    assert page.locator(".place:visible").count() == 0


def test_pointing_at_a_chart_or_the_arrow_keys_tell_the_values(opened: Open, runs: Path) -> None:
    page = opened()
    place = place_of(page, "none")
    accuracies = [f"{100 * row['test_accuracy']:.2f}" for row in Run(*runs.glob("*none*")).rows]
    chart, tip = place.locator(".chart").first, place.locator(".tip").first
    chart.hover(position={"x": 60, "y": 100})
    assert "epoch 1" in tip.inner_text()
    assert accuracies[0] in tip.inner_text()
    page.mouse.move(0, 0)
    assert tip.is_hidden()
    chart.press("End")
    assert f"epoch {EPOCHS}" in tip.inner_text()
    assert accuracies[-1] in tip.inner_text()
    chart.press("ArrowLeft")
    assert f"epoch {EPOCHS - 1}" in tip.inner_text()


def test_losses_that_lie_far_apart_are_drawn_on_powers_of_ten(
    opened: Open, runs: Path, tmp_path: Path
) -> None:
    path = tmp_path / "far" / "apart"
    shutil.copytree(next(runs.glob("*none*")), path)
    rows = [json.loads(line) for line in (path / "epochs.jsonl").read_text().splitlines()]
    for row in rows:
        row["train_loss"] = 100.0 ** -row["epoch"]
    (path / "epochs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = opened(path.parent)
    loss = page.locator("figure", has_text="Training loss, logarithmic")
    assert "0.01" in loss.locator("css=.chart text").all_text_contents()
    page.get_by_text("hide all").click()
    assert loss.locator(".line:visible").count() == 0
    page.get_by_text("show all").click()
    assert loss.locator("g .line:visible").count() == 1


def test_the_name_of_a_run_leads_to_its_details(opened: Open) -> None:
    page = opened()
    page.locator("#run-table a").first.click()
    details = page.locator("details.run[open]")
    assert details.count() == 1
    for text in ("training.batch_size", "versions.torch", "threads", "Realised noise"):
        assert text in details.inner_text()


def test_no_text_of_a_run_is_executed(opened: Open, runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    path = folder / "<img src=x onerror='window.harm=3'>"
    shutil.copytree(next(runs.glob("*none*")), path)
    header = json.loads((path / "header.json").read_text())
    header["spec"].update(method=HOSTILE, dataset=HOSTILE, noise=HOSTILE, settings={HOSTILE: 1})
    header |= {"classes": [HOSTILE] * 10, "versions": {HOSTILE: HOSTILE}}
    (path / "header.json").write_text(json.dumps(header))
    damaged = folder / "<img src=x onerror='window.harm=4'>.json.gz"
    damaged.write_bytes(b"")
    page = opened(folder)
    page.locator("#run-table a").first.click()
    page.locator(".chart").first.press("End")
    page.wait_for_timeout(200)
    assert page.evaluate("window.harm") is None
    assert page.locator("img").count() == 0
    assert "</script><img" in column(page, "#run-table", "method")[0]
    assert column(page, "#damaged-table", "run") == [damaged.name]


def test_an_unfinished_run_says_so(opened: Open, runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "some"
    path = folder / "going"
    shutil.copytree(next(runs.glob("*none*")), path)
    (path / "done").unlink()
    rows = (path / "epochs.jsonl").read_text().splitlines(keepends=True)
    (path / "epochs.jsonl").write_text(rows[0])
    page = opened(folder)
    assert "1 of them unfinished" in page.locator("#made").inner_text()
    assert column(page, "#run-table", "epochs") == [f"1 of {EPOCHS}"]
    assert "unfinished" in column(page, "#run-table", "method")[0]
    assert page.locator(".chart").first.locator("circle.line:visible").count() == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_window_in_light_and_dark(opened: Open, width: int) -> None:
    backgrounds = set()
    for scheme in ("light", "dark"):
        page = opened(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        page.locator("#run-table a").first.click()
        page.locator(".chart").first.press("End")
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        chart = page.locator(".chart").first.bounding_box()
        assert chart["x"] >= 0
        assert chart["x"] + chart["width"] <= width
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert len(backgrounds) == 2
