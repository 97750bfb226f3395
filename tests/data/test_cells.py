"""Tables as they are written."""

from __future__ import annotations

import csv
import io
import sys
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelnoise.data.cells import read_cells
from labelnoise.errors import LabelNoiseError


def written(folder: Path, text: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def cells(path: Path) -> dict[str, list[str]]:
    return {name: list(column.cells) for name, column in read_cells(path).columns.items()}


def message(path: Path) -> str:
    with pytest.raises(LabelNoiseError) as error:
        read_cells(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    text = delimiter.join(["a", "b", "c"]) + "\n" + delimiter.join(["1", "2", "x"]) + "\n"
    assert cells(written(tmp_path, text)) == {"a": ["1"], "b": ["2"], "c": ["x"]}


def test_commas_in_the_text_do_not_hide_the_delimiter(tmp_path: Path) -> None:
    text = "review;label\ngood, very good;1\nbad, bad, bad;0\n"
    assert cells(written(tmp_path, text))["label"] == ["1", "0"]
    text = 'review,label\n"a; b; c",1\n"d; e",0\n'
    assert cells(written(tmp_path, text))["label"] == ["1", "0"]


def test_marks_of_other_systems(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4\r\n")
    assert cells(path) == {"a": ["1", "3"], "b": ["2", "4"]}


def test_a_quoted_cell_may_have_lines_quotes_and_delimiters(tmp_path: Path) -> None:
    path = written(tmp_path, 'a, "b, too"\n1, "x, ""y""\n\nz"\n2,w\n')
    assert cells(path) == {"a": ["1", "2"], "b, too": ['x, "y"\n\nz', "w"]}


def test_a_text_longer_than_the_csv_module_likes(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    text = "word " * 50_000
    assert cells(written(tmp_path, f"a,b\n{text},1\n"))["a"] == [text]
    assert csv.field_size_limit() == before < sys.maxsize


def test_columns_without_a_name(tmp_path: Path) -> None:
    assert list(cells(written(tmp_path, ",a\n0,1\n"))) == ["column 0", "a"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3 fields, the first line has 2"),
        ('a,b\n"x\ny",2\n\n1\n', "line 5 has 1 fields, the first line has 2"),
        ('a,b\n1,2\n3,"4\n5,6\n', "the row from line 3 on cannot be read (unexpected end of data)"),
        ("a,b\n", "there are no rows below the names of the columns"),
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("a,b,a\n1,2,3\n", "two columns are called 'a': rename one"),
        (
            "5.1,3.5,setosa\n4.9,3.0,setosa\n",
            "the first line has numbers (5.1, 3.5, setosa) where the names of the columns are "
            "expected: add a line of names",
        ),
        (
            "7,0,0,0\n2,0,0,1\n",
            "the first line has numbers (7, 0, 0) where the names of the columns are expected: "
            "add a line of names",
        ),
        (
            'a;b\n1;"2" inch\n',
            "the row from line 2 on cannot be read (';' expected after '\"')",
        ),
        (b"a,b\n1,\xe9\n", "line 2 is not UTF-8: save the table as UTF-8"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str | bytes, what: str) -> None:
    assert message(written(tmp_path, text)) == what


def test_parquet_says_itself_what_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    table = pa.table(
        {
            "whole": [1, None, 3],
            "real": pa.array([0.5, float("nan"), 2.0], pa.float32()),
            "yes": [True, False, None],
            "day": [date(2024, 1, 2), None, date(2024, 1, 4)],
            "time": [datetime(2024, 1, 2, 3, 4), None, None],
            "word": pa.array(["a", None, "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, path, row_group_size=2)
    read = read_cells(path).columns
    assert {name: list(column.cells) for name, column in read.items()} == {
        "whole": ["1", "", "3"],
        "real": ["0.5", "nan", "2.0"],
        "yes": ["True", "False", ""],
        "day": ["2024-01-02", "", "2024-01-04"],
        "time": ["2024-01-02T03:04:00", "", ""],
        "word": ["a", "", "b"],
    }
    assert read["whole"].values is not None
    np.testing.assert_array_equal(read["whole"].values, [1, np.nan, 3])
    assert read["yes"].values is None
    assert [read["word"].cells[row] for row in (2, 0)] == ["b", "a"]
    assert list(read["whole"].cells[1:]) == ["", "3"]
    taken = read["whole"].take([2, 0])
    assert list(taken.cells) == ["3", "1"]
    np.testing.assert_array_equal(taken.values, [3, 1])


def test_times_in_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    times = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"time": times}), path)
    assert cells(path) == {"time": ["2023-11-14T22:13:20.123456+00:00"]}


def test_numbered_columns(tmp_path: Path) -> None:
    assert list(cells(written(tmp_path, "0,1,2,label\n5,6,7,a\n"))) == ["0", "1", "2", "label"]


def test_what_is_no_parquet(tmp_path: Path) -> None:
    assert message(written(tmp_path, "a,b\n1,2\n", "own.parquet")).startswith(
        "no readable parquet file ("
    )


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = written(tmp_path, b"PAR1", "own.parquet")
    assert message(path) == "parquet needs pyarrow: pip install 'labelnoise[parquet]'"


words = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8
).filter(lambda word: bool(word.strip()))


@settings(max_examples=60, deadline=None)
@given(
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    rows=st.lists(st.tuples(words, words, words), min_size=1, max_size=6),
)
def test_what_the_csv_module_writes_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, delimiter: str, rows: list[tuple[str, str, str]]
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("first", "second", "third"), *rows])
    path = written(tmp_path_factory.mktemp("table"), text.getvalue())
    assert list(zip(*cells(path).values(), strict=True)) == rows


def complaint(path: Path) -> str:
    try:
        cells(path)
    except LabelNoiseError as error:
        return str(error)
    return ""


CSV = b'name,"a ""b""",kind\n1,"x\ny",cat\n2,\xc3\xa9,dog\n'
buffer = io.BytesIO()
pq.write_table(pa.table({"a": [1, 2, None], "b": ["x", None, "z"]}), buffer)
PARQUET = buffer.getvalue()


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(["csv", "parquet"]),
    cut=st.one_of(st.just(0), st.integers(0, 600)),
    damage=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
)
def test_damage_gives_a_table_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, kind: str, cut: int, damage: list[tuple[int, int]]
) -> None:
    damaged = bytearray(CSV if kind == "csv" else PARQUET)
    for where, byte in damage:
        damaged[where % len(damaged)] = byte
    path = tmp_path_factory.mktemp("damage") / f"own.{kind}"
    path.write_bytes(damaged[: max(0, len(damaged) - cut)])
    error = complaint(path)
    assert "\n" not in error
    assert not error or error.startswith(f"{path}: ")
