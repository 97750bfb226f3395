"""Columns as inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelnoise.data.cells import Column
from labelnoise.data.encode import CATEGORIES, QUANTILES, Array, Dropped, encode, fit, width
from labelnoise.errors import LabelNoiseError

NOTHING = Dropped((), ())


def encoded(*cells: Sequence[str]) -> tuple[Array, list[dict[str, object]], Dropped]:
    columns = [Column(f"c{number}", column) for number, column in enumerate(cells)]
    encodings, dropped = fit(columns)
    kept = json.loads(json.dumps(encodings))
    return encode({c.name: c for c in columns}, kept, len(cells[0])), encodings, dropped


def kind(*cells: str) -> object:
    _, encodings, _ = encoded(cells)
    return encodings[0]["kind"]


def test_a_number_gives_its_value_and_its_rank() -> None:
    inputs, _, _ = encoded(["1", "2", "2", "1000", "3"])
    assert inputs[:, 0].tolist() == [
        -1,
        0,
        0,
        998,
        1,
    ]  # less the median, in quartile ranges
    assert inputs[:, 1] == pytest.approx([0.1, 0.4, 0.4, 0.9, 0.7])


def test_one_value_that_is_far_off_does_not_push_the_ranks_together() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    values[7] = 1e30
    inputs, _, _ = encoded([repr(float(value)) for value in values])
    ranks = np.argsort(np.argsort(values)) / 1000
    assert np.abs(inputs[:, 1] - ranks).max() < 1 / (QUANTILES - 1)
    assert np.isfinite(inputs).all()


@pytest.mark.parametrize("immense", ["1e308", "-1e308", "1e400", "5e-324"])
def test_numbers_that_float32_cannot_hold_are_finite_inputs(immense: str) -> None:
    inputs, encodings, _ = encoded(["0", immense, "0", "0", "1"])
    assert np.isfinite(inputs).all()
    assert encodings[0]["absent"] == (immense == "1e400")  # infinite, which is no value


@pytest.mark.parametrize("word", ["", "NA", "nan", "NaN", "null", "?", " n/a "])
def test_a_missing_number_is_the_median_and_says_so(word: str) -> None:
    inputs, encodings, _ = encoded(["1", word, "2", "3"])
    assert inputs[1].tolist() == [0, 0.5, 1]
    assert inputs[:, 2].tolist() == [0, 1, 0, 0]
    assert encodings[0]["absent"] == 1


@pytest.mark.parametrize("word", ["", "NA", "null", "?"])
def test_a_missing_category_is_one_of_its_own(word: str) -> None:
    inputs, encodings, _ = encoded(["red", word, "blue", "red"])
    assert encodings[0]["categories"] == ["red", "blue"]
    assert inputs.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2.5", "3e4", ".5"], "number"),
        (["1,234", "12", "1,234,567.8"], "number with commas"),
        (["3,14", "2", "-0,5"], "number with a decimal comma"),
        (["2024-01-31", "2024-02-01T12:30:00", "2024-02-01T12:30:00+02:00"], "date"),
        (["1_000", "2_000"], "category"),
        (["yes", "no"], "category"),
        (["True", "False"], "category"),
        (["1", "2", "3", "more"], "category"),
        (["2024-01-31", "soon"], "category"),
    ],
)
def test_the_content_says_what_a_column_is(cells: list[str], expected: str) -> None:
    assert kind(*cells) == expected


def test_a_few_words_among_many_numbers_are_missing_values() -> None:
    cells = [str(number * 1.5) for number in range(60)] + ["unknown"]
    with pytest.warns(UserWarning, match="'c0': 1 cells such as 'unknown' are no numbers, taken"):
        inputs, encodings, _ = encoded(cells)
    assert encodings[0]["kind"] == "number"
    assert inputs[-1, 2] == 1


def test_dates_are_days_and_keep_their_order() -> None:
    days = [date(2020, 1, 1) + timedelta(days=7 * week) for week in range(30)]
    inputs, encodings, dropped = encoded([day.isoformat() for day in days])
    assert encodings[0]["kind"] == "date"
    assert dropped == NOTHING
    assert (np.diff(inputs[:, 0]) > 0).all()
    assert (np.diff(inputs[:, 1]) > 0).all()


@pytest.mark.parametrize("cells", [["5"] * 4, ["a"] * 4, [""] * 4, ["NA", "?", "", "nan"]])
def test_a_constant_column_is_left_out(cells: list[str]) -> None:
    inputs, _, dropped = encoded(cells, ["1", "2", "3", "4"])
    assert dropped == Dropped(("c0",), ())
    assert inputs.shape == (4, 2)


@pytest.mark.parametrize("cells", [["5", "", "5", ""], ["a", "", "a", ""]])
def test_whether_a_value_is_there_may_be_all_that_a_column_says(cells: list[str]) -> None:
    inputs, _, dropped = encoded(cells)
    assert dropped == NOTHING
    assert inputs[:, -1].tolist() == [0, 1, 0, 1]


def test_columns_that_say_who_and_not_what_are_left_out() -> None:
    names = [f"person {number}" for number in range(100)]
    counted = [str(number + 17) for number in range(100)]
    shuffled = [str(3 * ((number * 37) % 100)) for number in range(100)]
    columns = [Column("name", names), Column("row", counted), Column("PassengerId", shuffled)]
    encodings, dropped = fit([*columns, Column("fare", shuffled)])
    assert dropped.identity == ("name", "row", "PassengerId")
    assert [encoding["name"] for encoding in encodings] == ["fare"]


def test_a_wide_table_has_a_small_encoding() -> None:
    values = np.random.default_rng(0).normal(size=(3000, 30)).round(4)
    columns = [Column(str(number), [], row) for number, row in enumerate(values)]
    encodings, _ = fit(columns)
    assert max(len(encoding["values"]) for encoding in encodings) == 65_000 // 3000
    assert len(fit(columns[:100])[0][0]["values"]) == 30


def test_categories_beyond_the_frequent_ones_are_pooled() -> None:
    cells = [f"city {number:02}" for number in range(70) for _ in range(100 - number)]
    inputs, encodings, _ = encoded(cells)
    assert encodings[0]["categories"] == [f"city {number:02}" for number in range(CATEGORIES)]
    assert width(encodings[0]) == CATEGORIES + 1
    assert (inputs.sum(axis=1) == 1).all()
    assert inputs[:, -1].sum() == sum(100 - number for number in range(CATEGORIES, 70))


def test_what_is_very_rare_has_no_input_that_would_shout() -> None:
    words = ["a", "b"] * 1000 + ["once", ""]
    numbers = [str(number % 77) for number in range(2001)] + [""]
    inputs, encodings, _ = encoded(words, numbers)
    assert encodings[0]["categories"] == ["a", "b"]
    assert inputs.shape[1] == 2 + 2
    assert inputs[-2, :2].tolist() == [0, 0]
    assert inputs[-1, :2].tolist() == [0, 0]


def test_new_rows_are_encoded_as_in_training() -> None:
    first = [Column("n", ["1", "2", "3", ""]), Column("c", ["a", "b", "a", "b"])]
    encodings, _ = fit(first)
    new = [Column("c", ["zebra", " a ", ""]), Column("n", ["2.5", "-99", "99"]), Column("x", [""])]
    inputs = encode({column.name: column for column in new}, encodings, 3)
    assert inputs[:, 1] == pytest.approx([0.5 + 1 / 6, 1 / 6, 5 / 6])
    assert inputs[:, 3:].tolist() == [[0, 0], [1, 0], [0, 0]]


def test_numbers_of_a_file_that_knows_them_need_no_commas() -> None:
    encodings, _ = fit([Column("n", ["1,234", "500", "2,000"])])
    new = Column("n", ["1234.0", "500.0"], np.array([1234.0, 500.0]))
    inputs = encode({"n": new}, encodings, 2)
    assert inputs[:, 1] == pytest.approx([0.5, 1 / 6])


def test_unknown_categories_are_others() -> None:
    cells = [f"{number % 60}x" for number in range(600)]
    encodings, _ = fit([Column("c", cells)])
    inputs = encode({"c": Column("c", ["new", "0x"])}, encodings, 2)
    assert inputs[:, -1].tolist() == [1, 0]


def test_a_column_that_is_gone_is_named_with_the_nearest() -> None:
    encodings, _ = fit([Column("height", ["1", "2"])])
    with pytest.raises(LabelNoiseError, match="no column 'height': rename 'heigth'"):
        encode({"heigth": Column("heigth", ["1"])}, encodings, 1)


cell = st.one_of(
    st.sampled_from(["", "NA", "red", "blue", "2024-01-01", "True", "1,5"]),
    st.floats(width=32).map(str),
    st.integers(-5, 5).map(str),
    st.text(max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(cells=st.lists(cell, min_size=2, max_size=40), data=st.data())
def test_a_row_is_encoded_alike_alone_and_among_others(
    cells: list[str], data: st.DataObject
) -> None:
    encodings, _ = fit([Column("c", cells)])
    encodings = json.loads(json.dumps(encodings))
    together = encode({"c": Column("c", cells)}, encodings, len(cells))
    assert np.isfinite(together).all()
    rows = data.draw(st.lists(st.integers(0, len(cells) - 1), min_size=1, max_size=5))
    some = encode({"c": Column("c", [cells[row] for row in rows])}, encodings, len(rows))
    np.testing.assert_array_equal(some, together[rows])


def test_a_column_of_sentences_asks_for_its_words() -> None:
    said = [f"the weather of day {day} was rather {('fine', 'foul')[day % 2]}" for day in range(30)]
    with pytest.warns(UserWarning, match="'note' looks like texts: --text 'note'"):
        fit([Column("note", said)])


def test_short_categories_do_not(recwarn: pytest.WarningsRecorder) -> None:
    fit([Column("place", ["New York", "San Francisco de Quito"] * 20)])
    assert not recwarn.list
