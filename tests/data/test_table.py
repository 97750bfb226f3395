"""One's own tables, to train on and to predict."""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labelnoise.data import Columns, Dataset, Known, read
from labelnoise.data.table import read_table, table_rows
from labelnoise.errors import LabelNoiseError

PETS = """\
weight,colour,kind
4.5,black,cat
30,brown,dog
3.9,white,cat
25,black,dog
5,brown,cat
"""


def written(folder: Path, text: str, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def quietly(path: Path, **names: str) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_table(path, Columns(**names))


def message(path: Path, **names: str) -> str:
    with pytest.raises(LabelNoiseError) as error:
        quietly(path, **names)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}: ")


def test_a_table(tmp_path: Path) -> None:
    data = quietly(written(tmp_path, PETS), label="kind")
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 1, 0, 1, 0]
    assert data.labels.dtype == torch.int64
    assert data.inputs.shape == (5, 2 + 3)
    assert data.inputs.dtype == torch.float32
    assert data.ids == ()
    assert data.originals[1] == {"weight": "30", "colour": "brown"}
    assert len(data.originals) == 5
    assert [row["weight"] for row in data.originals[1:3]] == ["30", "3.9"]
    assert json.loads(json.dumps(data.encoding)) == data.encoding


@pytest.mark.parametrize(
    ("header", "label", "why"),
    [
        ("label,b,c", "label", "by its name"),
        ("a,Class,c", "Class", "by its name"),
        ("TARGET,b,c", "TARGET", "by its name"),
        ("y,b,c", "y", "by its name"),
        ("y,b,class", "class", "by its name"),
        ("a,b,c", "c", "the last one"),
    ],
)
def test_which_column_the_labels_are_is_said(
    tmp_path: Path, header: str, label: str, why: str
) -> None:
    path = written(tmp_path, f"{header}\n1,2,3\n4,5,6\n7,8,9\n")
    with pytest.warns(UserWarning, match=f"the labels are column '{label}', {why}; --label"):
        data = read_table(path)
    assert data.encoding is not None
    assert data.encoding["label"] == label


def test_a_named_label_needs_no_word(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, PETS), Columns(label="kind")).classes == ("cat", "dog")
    assert read_table(written(tmp_path, PETS), Columns(label="colour")).classes == (
        "black",
        "brown",
        "white",
    )


def test_a_label_that_does_not_exist_suggests_the_nearest(tmp_path: Path) -> None:
    assert message(written(tmp_path, PETS), label="knid") == (
        "unknown column 'knid': did you mean 'kind'?"
    )
    assert message(written(tmp_path, PETS), label="zzz") == (
        "unknown column 'zzz': choose from colour, kind, weight"
    )


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["1.0", "10.0", "2.0"], ("1", "2", "10")),
        (["0.5", "10", "2.5"], ("0.5", "2.5", "10")),
        (["10", "9", "b"], ("10", "9", "b")),
        (["True", "False", "True"], ("False", "True")),
        ([" cat", "cat ", "dog"], ("cat", "dog")),
    ],
)
def test_labels_are_numbers_or_text(
    tmp_path: Path, labels: list[str], classes: tuple[str, ...]
) -> None:
    rows = "".join(f"{row},{label}\n" for row, label in enumerate(labels))
    data = quietly(written(tmp_path, "a,label\n" + rows))
    assert data.classes == classes
    found = [classes[label] for label in data.labels.tolist()]
    assert found == [label.strip().removesuffix(".0") for label in labels]


def test_rows_without_a_label_are_counted_and_the_others_keep_their_number(tmp_path: Path) -> None:
    path = written(tmp_path, "a,label\n1,x\n2,\n3,y\n4,NA\n5,x\n6,?\n")
    with pytest.warns(UserWarning, match="3 rows without a label are left out"):
        data = read_table(path, Columns(label="label"))
    assert data.ids == ("0", "2", "4")
    assert [row["a"] for row in data.originals] == ["1", "3", "5"]
    assert data.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("label\na\nb\n", "there is only the column 'label': features are needed, too"),
        ("a,label\n1,x\n2,x\n", "column 'label' has only one class, 'x': at least two are needed"),
        ("a,label\n1,\n2,NA\n", "column 'label' has no label in any row"),
        ("a,label\n1,x\n1,y\n", "no column is left to learn from"),
        (
            "a,price\n" + "".join(f"{n % 7},{n * 1.01}\n" for n in range(50)),
            "column 'price' has 50 different values in 50 rows, which are no classes: "
            "pass --label with the labels",
        ),
        ("a,label\n1,x\n2\n", "line 3 has 1 fields, the first line has 2"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str, what: str) -> None:
    assert message(written(tmp_path, text)) == what


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    rows = "".join(f"{n},person {n},1,,{n % 5},{n % 2}\n" for n in range(40))
    path = written(tmp_path, "id,name,one,none,five,label\n" + rows)
    with pytest.warns(UserWarning, match="left out") as said:
        data = read_table(path, Columns(label="label"))
    assert [str(warning.message).removeprefix(f"{path}: ") for warning in said] == [
        "2 columns are left out, the same in every row: 'one', 'none'",
        "2 columns are left out, different in nearly every row (--text NAME learns from a text): "
        "'id', 'name'",
    ]
    assert data.inputs.shape == (40, 2)
    assert data.encoding is not None
    assert data.encoding["dropped"] == {
        "one": "constant",
        "none": "constant",
        "id": "identity",
        "name": "identity",
    }
    assert data.originals[3]["name"] == "person 3"  # which helps a person all the same


def test_a_class_with_one_row_and_rows_that_are_equal(tmp_path: Path) -> None:
    data = quietly(written(tmp_path, "a,label\n" + "1,x\n2,y\n" * 10 + "3,once\n"))
    assert torch.bincount(data.labels).tolist() == [1, 10, 10]
    assert len(data.labels) == 21
    assert torch.equal(data.inputs[0], data.inputs[2])


def test_csv_and_parquet_of_one_table_are_the_same_data(tmp_path: Path) -> None:
    columns = {
        "number": [0.1, None, 2.25, 1e-3, 7.0],
        "whole": [3, 1, 2, 1, 3],
        "flag": [True, False, True, None, False],
        "word": ["a", "b", None, "a", "c"],
        "label": [2, 10, 2, None, 10],
    }
    pq.write_table(pa.table(columns), tmp_path / "own.parquet")
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(["" if value is None else value for value in row])
    first = quietly(tmp_path / "own.parquet")
    second = quietly(written(tmp_path, text.getvalue()))
    assert torch.equal(first.inputs, second.inputs)
    assert first.classes == second.classes == ("2", "10")
    assert first.encoding == second.encoding
    assert first.ids == second.ids == ("0", "1", "2", "4")
    assert [dict(row) for row in first.originals] == [dict(row) for row in second.originals]


def test_the_same_inputs_under_another_name_are_other_data(tmp_path: Path) -> None:
    first = quietly(written(tmp_path, PETS))
    renamed = quietly(written(tmp_path, PETS.replace("weight", "mass")))
    assert torch.equal(first.inputs, renamed.inputs)
    assert first.fingerprint.hexdigest() != renamed.fingerprint.hexdigest()


def test_a_changed_table_keeps_the_numbers_of_its_rows(tmp_path: Path) -> None:
    rows = "".join(f"{n * 2},{n % 2}\n" for n in range(50))
    path = written(tmp_path, "a,label\n" + rows)
    data = read(f"{path}:rows=10", columns=Columns(label="label"))
    assert [row["a"] for row in data.originals] == [str(2 * int(name)) for name in data.ids]
    assert [row["a"] for row in data.originals[2:4]] == [str(2 * int(n)) for n in data.ids[2:4]]


@pytest.mark.parametrize("name", ["label", "image", "text"])
def test_data_without_columns_have_none_to_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(LabelNoiseError, match=f"digits has no columns to name: leave --{name} out"):
        read("digits", columns=Columns(**{name: "a"}))


# --- prediction -----------------------------------------------------------------------------------


def known(data: Dataset) -> Known:
    """What a model finds in the header of its run."""
    return Known(data.classes, json.loads(json.dumps(data.encoding)))


def test_rows_to_predict_need_neither_label_nor_order(tmp_path: Path) -> None:
    data = quietly(written(tmp_path, PETS))
    new = written(tmp_path, "extra,colour,weight\n1,white,3.9\n2,green,\n", "new.csv")
    inputs, labels, _ = table_rows(new, known(data))
    assert labels is None
    assert torch.equal(inputs[0], data.inputs[2])
    assert inputs[1].tolist() == [0, 0.5, 0, 0, 0]  # the median, and no colour that is known


def test_labels_of_rows_to_predict(tmp_path: Path) -> None:
    data = quietly(written(tmp_path, PETS))
    new = written(tmp_path, "weight,colour,kind\n3,white,dog\n4,white,\n5,white,cat\n", "new.csv")
    assert labels_of(new, data) == [1, -1, 0]
    none = written(tmp_path, "weight,colour,kind\n3,white,\n", "none.csv")
    assert labels_of(none, data) is None
    other = written(tmp_path, "weight,colour,sort\n3,white,dog\n", "other.csv")
    assert labels_of(other, data) is None
    assert labels_of(other, data, label="sort") == [1]


def labels_of(path: Path, data: Dataset, **names: str) -> Any:
    labels = table_rows(path, known(data), Columns(**names))[1]
    return None if labels is None else labels.tolist()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("wieght,colour\n3,white\n", "there is no column 'weight': rename 'wieght'?"),
        ("weight,colour,kind\n3,white,dgo\n", "unknown class 'dgo': did you mean 'dog'?"),
    ],
)
def test_what_is_wrong_with_rows_to_predict(tmp_path: Path, text: str, what: str) -> None:
    data = quietly(written(tmp_path, PETS))
    path = written(tmp_path, text, "new.csv")
    with pytest.raises(LabelNoiseError) as error:
        table_rows(path, known(data))
    assert str(error.value).startswith(f"{path}: ")
    assert str(error.value).endswith(what)


def test_a_model_of_arrays_reads_no_tables(tmp_path: Path) -> None:
    path = written(tmp_path, PETS)
    with pytest.raises(LabelNoiseError, match="is a table, but the run was not trained on one"):
        table_rows(path, Known(("cat", "dog")))


value = st.one_of(
    st.sampled_from(["", "NA", "?", "red", "blue", "7", "2024-02-29"]),
    st.floats(allow_nan=False, width=32).map(repr),
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(value, value, value), min_size=3, max_size=30))
def test_the_training_rows_are_predicted_from_what_was_trained_on(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("a", "b", "c", "d", "label"))
    for number, row in enumerate(rows):
        writer.writerow((*row, (number * number) % 7, number % 2))
    path = written(tmp_path_factory.mktemp("table"), text.getvalue())
    data = quietly(path, label="label")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs, labels, _ = table_rows(path, known(data))
    assert torch.equal(inputs, data.inputs)
    assert labels is not None
    assert torch.equal(labels, data.labels)
