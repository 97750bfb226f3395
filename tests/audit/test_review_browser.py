"""The page of an audit in a real browser, opened from disk: decide, and apply what was decided."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from labelnoise.audit.apply import apply
from labelnoise.audit.audit import audit_labels
from labelnoise.audit.findings import Findings
from labelnoise.audit.report import write_report
from labelnoise.data import read
from labelnoise.data.dataset import Dataset

from .found import findings_of

pytestmark = pytest.mark.long

HARM = "<img src=x onerror=alert(1)>"
HOSTILE = f"</script>{HARM}<script>window.harm=2</script>\u2028"
DATA = "mnist:rows=3000"

Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens a page; whatever goes wrong in it, or is asked for, fails the test."""
    contexts, complaints, asked, allowed = [], [], [], set()

    def open_page(path: Path, scheme: str = "light", width: int = 1280, script: str = "") -> Any:
        size = {"width": width, "height": 850}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme))
        page = contexts[-1].new_page()
        if script:
            page.add_init_script(script)
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: asked.append(request.url))
        allowed.add(path.as_uri())
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} <= allowed


def small_dataset(rows: int = 40, **more: Any) -> Dataset:
    """Numbers of three classes."""
    inputs = torch.randn(rows, 8, generator=torch.Generator().manual_seed(0))
    settings = {"name": "mine.csv", "classes": ("cat", "dog", "owl"), **more}
    return Dataset(inputs=inputs, labels=torch.arange(rows) % len(settings["classes"]), **settings)


def small_page(folder: Path, flagged: int = 12, **more: Any) -> tuple[Path, Findings]:
    dataset = small_dataset(**more)
    count = len(dataset.classes)
    wrong = {row: (row + 1) % count for row in range(flagged)}
    found = findings_of(dataset, wrong)
    write_report(folder / "report.html", found, dataset)
    return folder / "report.html", found


def ids(page: Any) -> list[str]:
    """What the cards in sight are called, in order."""
    found: list[str] = page.eval_on_selector_all(
        ".card", "cards => cards.sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)"
        ".map(card => card.querySelector('.id').textContent)"
    )  # fmt: skip
    return found


def current(page: Any) -> str:
    return str(page.locator("#detail .id").inner_text())


def press(page: Any, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def exported(page: Any, path: Path) -> list[dict[str, str]]:
    with page.expect_download() as waiting:
        page.click("#export")
    assert waiting.value.suggested_filename == "decisions.csv"
    waiting.value.save_as(path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- from a real audit to applied labels ----------------------------------------------------------


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Findings]:
    """MNIST with planted noise."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("audited") / "audit"
    return out, audit_labels(DATA, out=out, noise="symmetric:0.2", epochs=6).findings


@pytest.mark.data
def test_from_the_page_to_the_corrected_labels(
    opened: Open, audited: tuple[Path, Findings], tmp_path: Path
) -> None:
    folder, found = audited
    truth = read(DATA).labels.numpy()
    page = opened(folder / "report.html")
    assert re.search(r"3,000 labels, \d+ flagged", page.locator("#made").inner_text())
    assert page.locator(".card img").first.evaluate("image => image.naturalWidth") == 28
    flagged = found.worst_first()[: found.issue.sum()]

    # The worst ten are accepted by key, then one each is kept, bad, and given another label.
    assert current(page) == found.ids[flagged[0]]
    press(page, "aaaaaaaaaa")
    assert current(page) == found.ids[flagged[10]]
    press(page, "kb")
    other = (found.given[flagged[12]] + 1) % 10
    press(page, f"l{other}")
    page.keyboard.press("Enter")
    assert "13 of" in page.locator("#counts").inner_text()

    # A pair is chosen by filter, and one of it relabelled by the key of its digit.
    row = int(flagged[20])
    given, suggested = int(found.given[row]), int(found.predicted[row])
    page.select_option("#given", str(given))
    page.select_option("#suggested", str(suggested))
    pair = int(((found.given == given) & (found.predicted == suggested) & found.issue).sum())
    assert re.fullmatch(f"{pair} suspects? shown", page.locator("#shown").inner_text())
    page.locator(f"#suspect-{row}").click()
    press(page, str(suggested))

    page.reload()
    assert "14 of" in page.locator("#counts").inner_text()
    lines = exported(page, tmp_path / "decisions.csv")
    assert len(lines) == 14
    out = tmp_path / "labels.csv"
    apply(folder, tmp_path / "decisions.csv", out)

    expected = {name: str(label) for name, label in zip(found.ids, truth, strict=True)}
    expected[found.ids[flagged[10]]] = str(found.given[flagged[10]])
    expected |= {found.ids[i]: str(found.predicted[i]) for i in [*flagged[:10], row]}
    expected[found.ids[flagged[12]]] = str(other)
    del expected[found.ids[flagged[11]]]
    with out.open(newline="") as file:
        applied = {line["row"]: line["label"] for line in csv.DictReader(file)}
    assert applied == expected
    right = [applied[found.ids[i]] == str(truth[i]) for i in flagged[:10]]
    assert sum(right) >= 9, "the worst suspects of an audit are wrong labels, rightly suggested"


# --- deciding -------------------------------------------------------------------------------------


def test_noise_that_was_planted_is_said_on_top(opened: Open, tmp_path: Path) -> None:
    path, found = small_page(tmp_path)
    assert not opened(path).locator("#planted").is_visible()
    write_report(path, found, small_dataset(), planted=f"pair:0.2{HARM}")
    told = opened(path).locator("#planted").inner_text()
    assert told.startswith(f"Wrong labels (pair:0.2{HARM}) were planted to try the audit out")


def test_every_decision_by_key_undone_and_by_mouse(opened: Open, tmp_path: Path) -> None:
    path, found = small_page(tmp_path)
    page = opened(path)
    press(page, "kab")
    assert page.locator("#counts").inner_text() == "3 of 12 decided: 1 relabelled, 1 kept, 1 bad"
    assert [page.locator(f"#suspect-{row}").get_attribute("class") for row in range(4)] == [
        "card table keep", "card table relabel", "card table bad", "card table open",
    ]  # fmt: skip
    assert current(page) == "3"
    press(page, "uu")
    assert current(page) == "1"
    assert page.locator("#counts").inner_text() == "1 of 12 decided: 0 relabelled, 1 kept, 0 bad"
    page.keyboard.press("Control+z")
    page.keyboard.press("u")  # nothing is left to undo
    assert page.locator("#counts").inner_text() == "0 of 12 decided"
    page.locator(".act.keep").click()
    page.locator(".act.relabel").click()
    page.locator(".chips button", has_text="owl").click()
    page.locator(".act.bad").click()
    rows = exported(page, tmp_path / "decisions.csv")
    assert [(row["sample_id"], row["row"], row["decision"], row["new_label"]) for row in rows] == [
        ("0", "0", "keep", ""),
        ("1", "1", "relabel", found.classes[found.predicted[1]]),
        ("2", "2", "keep", ""),  # its label is owl already
        ("3", "3", "bad", ""),
    ]
    assert [row["given_label"] for row in rows] == ["cat", "dog", "owl", "cat"]


def test_moving_and_clearing(opened: Open, tmp_path: Path) -> None:
    page = opened(small_page(tmp_path)[0])
    columns = page.evaluate("grid.columns")
    assert columns > 1
    page.keyboard.press("ArrowDown")
    assert current(page) == str(columns)
    press(page, "jp")  # no keys: J beside K would be a trap for who moves by them elsewhere
    page.keyboard.press("ArrowLeft")
    assert current(page) == str(columns - 1)
    page.keyboard.press("End")
    assert current(page) == "11"
    page.keyboard.press("ArrowRight")
    assert current(page) == "11"
    page.keyboard.press("Home")
    press(page, "k")
    page.keyboard.press("ArrowLeft")
    assert current(page) == "0"
    page.keyboard.press("n")
    assert current(page) == "1"
    page.keyboard.press("ArrowLeft")
    press(page, "c")
    assert page.locator("#counts").inner_text() == "0 of 12 decided"
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("k")  # not while the help is open
    page.keyboard.press("Escape")
    assert page.locator("#counts").inner_text() == "0 of 12 decided"


def test_another_label_is_found_by_typing_and_may_be_new(opened: Open, tmp_path: Path) -> None:
    classes = tuple(f"kind {number}" for number in range(30))
    path, _ = small_page(tmp_path, rows=60, classes=classes)
    page = opened(path)
    press(page, "l")
    page.keyboard.type("nd 12")
    assert page.locator("#choices [role=option]").all_inner_texts() == [
        "kind 12",
        "new class: nd 12",
    ]
    page.keyboard.press("Enter")
    press(page, "/")
    page.keyboard.type("a brand, new one")
    page.keyboard.press("Enter")
    press(page, "l")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    rows = exported(page, tmp_path / "decisions.csv")
    assert [row["new_label"] for row in rows] == ["kind 12", "a brand, new one", ""]
    assert rows[2]["decision"] == "keep"  # of sample 2, which is kind 2
    closed, _ = small_page(tmp_path, rows=60, classes=classes, name="mine.npz")
    page = opened(closed)
    press(page, "l")
    page.keyboard.type("brand new")
    assert page.locator("#choices").inner_text() == "no such class"


def test_all_that_is_shown_is_decided_and_undone_at_once(opened: Open, tmp_path: Path) -> None:
    page = opened(small_page(tmp_path)[0])
    press(page, "k")
    page.click("#accept-all")
    assert page.locator("#counts").inner_text() == "12 of 12 decided: 11 relabelled, 1 kept, 0 bad"
    assert "All of them are decided" in page.locator("#notice").inner_text()
    page.click("#undo")
    assert page.locator("#counts").inner_text() == "1 of 12 decided: 0 relabelled, 1 kept, 0 bad"
    assert page.locator("#notice").is_hidden()


def test_digits_name_their_class_and_elsewhere_its_place(opened: Open, tmp_path: Path) -> None:
    digits = ("3", "0", "7")
    page = opened(small_page(tmp_path, classes=digits)[0])
    press(page, "701")  # of samples 0 (given 3), 1 (given 0); no class is called 1
    rows = exported(page, tmp_path / "decisions.csv")
    assert [(row["decision"], row["new_label"]) for row in rows] == [("relabel", "7"), ("keep", "")]
    page = opened(small_page(tmp_path)[0])
    press(page, "310")  # there is no tenth class
    rows = exported(page, tmp_path / "decisions.csv")
    assert [(row["decision"], row["new_label"]) for row in rows] == [
        ("relabel", "owl"),
        ("relabel", "cat"),
    ]


# --- where one is ---------------------------------------------------------------------------------


def box(page: Any, selector: str) -> tuple[float, float]:
    """Where something begins and ends in the window, from its top."""
    found = page.locator(selector).bounding_box()
    return found["y"], found["y"] + found["height"]


@pytest.mark.parametrize("key", ["k", "ArrowRight", "n"])
def test_the_first_key_brings_the_review_into_the_window(
    opened: Open, tmp_path: Path, key: str
) -> None:
    page = opened(small_page(tmp_path)[0])
    assert page.evaluate("scrollY") == 0
    assert box(page, "#suspect-0")[1] < 850, "the first card is on the first screen"
    page.keyboard.press(key)
    assert box(page, "#bar")[0] == 0
    assert box(page, "#bar")[1] <= box(page, "#suspect-1")[0] < 300
    for place in ("#detail", ".act.keep", ".act.relabel", ".act.bad", ".steps"):
        assert box(page, place)[1] <= 850, place
    page.evaluate("scrollTo(0, 0)")
    page.click("#begin")
    assert box(page, "#bar")[0] == 0
    press(page, "k")  # the list has the keys
    assert "1 of 12" in page.locator("#counts").inner_text() or key == "k"


@pytest.mark.parametrize("width", [1280, 390])
def test_what_comes_next_stays_in_sight(opened: Open, tmp_path: Path, width: int) -> None:
    page = opened(small_page(tmp_path, rows=200, flagged=120)[0], width=width)
    columns = page.evaluate("grid.columns")
    floor = 850.0
    for done in range(1, 40):
        press(page, "k")
        assert current(page) == str(done)
        ceiling = box(page, "#bar")[1]
        if width == 390:
            floor = box(page, "#detail")[0]
        top, bottom = box(page, f"#suspect-{done}")
        assert ceiling <= top <= ceiling + (floor - ceiling) / 3 + 10
        assert bottom <= floor
        assert box(page, f"#suspect-{done + columns}")[0] < floor, "the next line begins in sight"
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    assert box(page, "#bar")[1] <= box(page, "#suspect-9")[0]


def test_open_filters_never_cover_the_cards_of_a_narrow_window(
    opened: Open, tmp_path: Path
) -> None:
    page = opened(small_page(tmp_path)[0], width=390)
    page.click("#begin")
    page.click("#filters summary")
    page.select_option("#given", "1")
    assert page.locator("#detail").is_hidden()
    assert box(page, "#bar")[1] <= box(page, "#suspect-1")[0] < 700
    page.locator("#suspect-4").click()
    assert not page.evaluate("byId('filters').open")
    assert current(page) == "4"
    assert box(page, "#bar")[1] <= box(page, "#suspect-4")[0]
    assert box(page, "#suspect-4")[1] <= box(page, "#detail")[0]


# --- filter ---------------------------------------------------------------------------------------


def test_filters_and_orders(opened: Open, tmp_path: Path) -> None:
    page = opened(small_page(tmp_path)[0])
    assert ids(page) == [str(row) for row in range(12)]
    page.select_option("#given", "1")
    assert ids(page) == ["1", "4", "7", "10"]
    page.select_option("#suggested", "2")
    assert ids(page) == ["1", "4", "7", "10"]
    page.click("#clear")
    page.fill("#low", "0.03")
    page.fill("#high", "0.05")
    assert ids(page) == ["2", "3", "4"]
    page.click("#clear")
    page.select_option("#sort", "given")
    assert ids(page)[:5] == ["0", "3", "6", "9", "1"]
    page.click("#clear")
    page.select_option("#which", "other")
    assert page.locator("#shown").inner_text() == "25 suspects shown"
    page.fill("#text", "no such sample")
    assert page.locator("#nothing").is_visible()
    assert page.locator("#detail").is_hidden()
    page.click("#clear")
    page.select_option("#state", "undecided")
    page.locator("#list").focus()
    press(page, "kb")
    assert ids(page)[:2] == ["2", "3"]
    assert current(page) == "2"
    page.select_option("#state", "bad")
    assert ids(page) == ["1"]


def test_a_filter_that_is_done_or_finds_nothing_can_be_cleared(
    opened: Open, tmp_path: Path
) -> None:
    page = opened(small_page(tmp_path)[0])
    page.select_option("#given", "1")
    page.locator("#list").focus()
    press(page, "kkk")
    assert page.locator("#done").is_hidden()
    press(page, "k")
    assert page.locator("#done span").inner_text() == "Done here; 8 undecided elsewhere."
    assert box(page, "#bar")[1] <= box(page, "#suspect-1")[0], "the notice covers no card"
    page.click("#go-on")
    assert page.locator("#done").is_hidden()
    assert page.locator("#shown").inner_text() == "12 suspects shown"
    assert current(page) == "0"
    page.fill("#text", "no such sample")
    assert (
        page.locator("#nothing p").inner_text()
        == "Nothing matches the filter. 8 undecided elsewhere."
    )
    assert box(page, "#nothing")[1] < 850
    page.click("#show-all")
    assert page.locator("#nothing").is_hidden()
    press(page, "k")  # the list has the keys again
    page.select_option("#which", "other")
    page.click("#keep-all")
    assert "7 undecided elsewhere" in page.locator("#done").inner_text()
    assert "All of them" not in page.locator("#notice").inner_text()
    page.click("#go-on")
    page.click("#accept-all")
    assert page.locator("#done").is_hidden()
    assert "All of them are decided" in page.locator("#notice").inner_text()


def test_a_cell_of_the_heat_map_and_a_bar_choose_what_is_shown(
    opened: Open, tmp_path: Path
) -> None:
    page = opened(small_page(tmp_path)[0])
    spot = page.evaluate("[heat.margin + 0.5 * heat.size, heat.margin + 1.5 * heat.size]")
    page.locator("#heat").click(position={"x": spot[0], "y": spot[1]})  # dog, given as cat
    assert ids(page) == ["0", "3", "6", "9"]
    page.locator("#heat").focus()
    page.keyboard.press("ArrowRight")
    assert "dog given as itself" in page.locator("#cell").inner_text()
    press(page, "k")  # the map is no place to decide
    assert page.locator("#counts").inner_text() == "0 of 12 decided"
    page.locator(".share", has_text="owl").click()
    assert ids(page) == ["2", "5", "8", "11"]
    press(page, "k")
    assert page.locator("#counts").inner_text().startswith("1 of 12")


def test_a_hundred_classes_have_their_map_too(opened: Open, tmp_path: Path) -> None:
    classes = tuple(f"class {number}" for number in range(100))
    page = opened(small_page(tmp_path, rows=300, flagged=200, classes=classes)[0])
    spot = page.evaluate("[7.5 * heat.size, 8.5 * heat.size]")
    page.locator("#heat").hover(position={"x": spot[0], "y": spot[1]})
    assert (
        page.locator("#cell")
        .inner_text()
        .startswith("class 8 given as class 7: 0.10 %, 2 suspects")
    )
    page.locator("#heat").click(position={"x": spot[0], "y": spot[1]})
    assert ids(page) == ["7", "107"]
    assert page.locator(".chips").count() == 0


# --- kept -----------------------------------------------------------------------------------------


def test_decisions_survive_a_reload_and_never_reach_another_audit(
    opened: Open, tmp_path: Path
) -> None:
    path, _ = small_page(tmp_path)
    page = opened(path)
    press(page, "aab")
    page.reload()
    assert page.locator("#counts").inner_text() == "3 of 12 decided: 2 relabelled, 0 kept, 1 bad"
    assert current(page) == "3"
    small_page(tmp_path, flagged=11)
    page.reload()
    assert page.locator("#counts").inner_text() == "0 of 11 decided"


def test_decisions_are_taken_in_again_and_what_does_not_fit_is_left_out(
    opened: Open, tmp_path: Path
) -> None:
    path, _ = small_page(tmp_path, classes=("cat", 'a "dog", big', "owl\nsnow"))
    page = opened(path)
    press(page, "aakb")
    exported(page, tmp_path / "decisions.csv")
    other = opened(path)
    assert other.locator("#counts").inner_text() == "0 of 12 decided"
    strange = tmp_path / "strange.csv"
    strange.write_text(
        "sample_id,row,given_label,decision,new_label\n0,0,wrong,keep,\n99,99,cat,keep,\n3,3,cat,bad,\n"
    )
    other.set_input_files("#file", tmp_path / "decisions.csv")
    other.get_by_text("4 decisions taken in.").wait_for()
    again = exported(other, tmp_path / "again.csv")
    assert len(again) == 4
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "decisions.csv").read_bytes()
    other.set_input_files("#file", strange)
    other.get_by_text("1 decision taken in. 2 lines left out").wait_for()
    strange.write_text("a,b\n1,2\n")
    other.set_input_files("#file", strange)
    other.get_by_text("This is no decisions.csv").wait_for()


def test_a_browser_that_keeps_nothing_still_works_and_says_so(opened: Open, tmp_path: Path) -> None:
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('denied'); }})"
    page = opened(small_page(tmp_path)[0], script=refuse)
    press(page, "ak")
    assert "export your decisions" in page.locator("#notice").inner_text()
    assert len(exported(page, tmp_path / "decisions.csv")) == 2


# --- safe, small, fitting -------------------------------------------------------------------------


@pytest.mark.parametrize("name", [HARM, HOSTILE])
def test_no_name_is_executed(opened: Open, tmp_path: Path, name: str) -> None:
    rows = [{name: name, "text": name} for _ in range(40)]
    names = tuple(f"{name}{row}" for row in range(40))
    path, _ = small_page(tmp_path, classes=(name, "dog", "owl"), ids=names, originals=rows)
    page = opened(path)
    assert page.locator(".card .pair").first.inner_text().startswith(name.strip()[:12])
    assert name.strip() in page.locator("#detail").inner_text()
    assert page.locator(".share .name", has_text="onerror").count() == 1
    press(page, "al")
    page.keyboard.type("onerror")
    page.keyboard.press("Enter")
    page.locator("#heat").hover(position={"x": 100, "y": 100})
    page.wait_for_timeout(200)
    assert page.locator("img").count() == 0
    assert page.evaluate("window.harm") is None
    rows_out = exported(page, tmp_path / "decisions.csv")
    assert rows_out[0]["given_label"] == name


def test_the_policy_refuses_any_script_but_the_page_s_own(browser: Any, tmp_path: Path) -> None:
    path, _ = small_page(tmp_path)
    text = path.read_text().replace("<footer", "<script>window.harm = 1</script><footer", 1)
    path.write_text(text)
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.locator(".card").count() > 0
    assert page.evaluate("window.harm") is None
    page.close()


def test_ten_thousand_suspects_scroll_with_few_elements(opened: Open, tmp_path: Path) -> None:
    inputs = torch.randint(0, 256, (10_000, 1, 8, 8), dtype=torch.uint8)
    dataset = Dataset("digits", inputs, torch.arange(10_000) % 10, tuple("0123456789"))
    found = findings_of(dataset, {row: (row + 1) % 10 for row in range(10_000)})
    assert write_report(tmp_path / "report.html", found, dataset) == 10_000
    page = opened(tmp_path / "report.html")
    assert page.locator("#shown").inner_text() == "10,000 suspects shown"
    counts = []
    for share in (0, 0.3, 0.7, 1):
        page.evaluate(f"scrollTo(0, {share} * document.documentElement.scrollHeight)")
        page.wait_for_timeout(50)
        counts.append(page.evaluate("document.querySelectorAll('*').length"))
    assert max(counts) < 1200
    assert page.locator("#suspect-9999").is_visible()
    page.keyboard.press("Home")
    seconds = page.evaluate(
        "(() => { const from = performance.now(); for (let i = 0; i < 50; i++) decide(keeping());"
        " return performance.now() - from; })()"
    )
    assert seconds / 50 < 100, (
        "a decision among ten thousand is made in less than a tenth of a second"
    )
    assert page.locator("#counts").inner_text().startswith("50 of 10,000")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_window_in_light_and_dark(
    opened: Open, tmp_path: Path, width: int
) -> None:
    classes = ("a class with a very long name that goes on and on", "dog", "owl" * 30)
    names = tuple("folder/" * 12 + f"{row}.png" for row in range(40))
    path, _ = small_page(tmp_path, classes=classes, ids=names)
    backgrounds = set()
    for scheme in ("light", "dark"):
        page = opened(path, scheme=scheme, width=width)
        press(page, "akb")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for place in ("#detail", "#bar"):
            box = page.locator(place).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2


def test_an_audit_that_found_nothing_says_so(opened: Open, tmp_path: Path) -> None:
    page = opened(small_page(tmp_path, flagged=0)[0])
    assert "nothing to review" in page.locator("#told").inner_text()
    assert (
        page.locator("#least").inner_text() == "Nothing is flagged; these are the least sure ones."
    )
    assert page.locator("#accept-all").is_hidden(), "there is no suggestion to accept"
    assert page.locator("#keep-all").is_visible()
    assert "expected wrong" in page.locator("#budgets").inner_text()
    assert page.locator("#shown").inner_text() == "25 suspects shown"
    other = opened(small_page(tmp_path, flagged=2)[0])
    assert other.locator("#least").is_hidden()
    assert other.locator("#accept-all").is_visible()
    other.select_option("#which", "other")
    assert other.locator("#accept-all").is_hidden()


def test_bars_say_where_their_scale_ends(opened: Open, tmp_path: Path) -> None:
    page = opened(small_page(tmp_path)[0])  # 4 of 14, 13 and 13 are flagged
    assert page.locator(".axis span").all_inner_texts() == ["0", "40 %"]
    shares = page.eval_on_selector_all(".track i", "bars => bars.map(bar => bar.style.width)")
    assert [float(share.rstrip("%")) for share in shares] == pytest.approx(
        [100 * 4 / 13 / 0.4, 100 * 4 / 13 / 0.4, 100 * 4 / 14 / 0.4], abs=0.01
    )
