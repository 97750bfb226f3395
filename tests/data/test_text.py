"""Texts as inputs."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labelnoise.data import Columns, Known, read
from labelnoise.data.scale import standardised
from labelnoise.data.table import table_rows
from labelnoise.data.text import DIRECTIONS, FEWEST, WORDS, encode_text, fit_text
from labelnoise.errors import LabelNoiseError

TEXTS = ["A good, good film.", "a bad film", "NA", "not good, not bad!", "", "so bad"]


def reference(texts: list[str], text: str) -> dict[str, float]:
    """(1 + log count) (1 + log((1 + texts) / (1 + texts with it))), made of length 1."""
    split = [set(one.split()) for one in texts]
    weights = {}
    for word, count in Counter(text.split()).items():
        found = sum(word in words for words in split)
        weights[word] = (1 + math.log(count)) * (1 + math.log((1 + len(texts)) / (1 + found)))
    length = math.sqrt(sum(weight**2 for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()}


PLAIN = ["good good film", "bad film", "", "not good not bad", "", "so bad"]
"""The words that count of TEXTS."""


def test_words_are_weighed_by_how_few_texts_have_them() -> None:
    encoding = json.loads(json.dumps(fit_text(TEXTS)))
    assert encoding["words"] == ["bad", "film", "good", "not", "so"]
    inputs = encode_text(TEXTS, encoding)
    assert inputs.shape == (6, 1, 5)
    assert inputs.dtype == np.float32
    for text, row in zip(PLAIN, inputs[:, 0], strict=True):
        expected = reference(PLAIN, text)
        assert row == pytest.approx([expected.get(word, 0) for word in encoding["words"]])


def test_many_words_are_brought_together_where_most_of_the_weights_lie() -> None:
    chance = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in chance.integers(0, 60, 12)) for _ in range(100)]
    encoding = fit_text(texts)
    words = encoding["words"]
    inputs = encode_text(texts, encoding)[:, 0]
    assert inputs.shape == (100, FEWEST)
    weighed = np.array([[reference(texts, text).get(w, 0) for w in words] for text in texts])
    best = np.square(np.linalg.svd(weighed, compute_uv=False)[:FEWEST]).sum()
    assert 0.98 * best < np.square(inputs).sum() < 1.001 * best
    assert (np.linalg.norm(inputs, axis=1) < 1.001).all()


def test_the_number_of_directions_grows_with_the_texts() -> None:
    chance = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in chance.integers(0, 300, 9)) for _ in range(5000)]
    for count, wide in ((20, FEWEST), (640, 20), (3000, 93), (5000, DIRECTIONS)):
        assert encode_text(texts[:2], fit_text(texts[:count])).shape == (2, 1, wide)


def test_no_more_words_than_fit_and_the_frequent_ones() -> None:
    rare = [f"word{number}" for number in range(WORDS + 500)]
    encoding = fit_text([" ".join(rare), *["common ground"] * 3])
    assert len(encoding["words"]) == WORDS
    assert {"common", "ground"} <= set(encoding["words"])


def test_signs_that_are_words() -> None:
    assert fit_text(["世界 hello", "あお"])["words"] == ["hello", "あ", "お", "世", "界"]


def test_texts_without_words() -> None:
    with pytest.raises(LabelNoiseError, match="there are no words in the texts"):
        fit_text(["", "...", "NA"])


def test_all_words_are_scaled_alike() -> None:
    inputs = torch.from_numpy(encode_text(TEXTS, fit_text(TEXTS)))
    assert standardised(inputs).factor.numel() == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=10))
def test_a_text_is_encoded_alike_alone_and_among_others(texts: list[str]) -> None:
    encoding = json.loads(json.dumps(fit_text([*texts, "some words"])))
    together = encode_text(texts, encoding)
    assert np.isfinite(together).all()
    for number, text in enumerate(texts):
        np.testing.assert_array_equal(encode_text([text], encoding)[0], together[number])


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("stars", "review", "liked"))
        for number, text in enumerate(TEXTS):
            writer.writerow((number, text, "yes" if "good" in text else "no"))
    return path


def test_a_column_of_texts(reviews: Path) -> None:
    data = read(str(reviews), columns=Columns(text="review", label="liked"))
    assert data.inputs.shape == (6, 1, 5)
    assert data.classes == ("no", "yes")
    assert [dict(row) for row in data.originals] == [{"text": text} for text in TEXTS]
    known = Known(data.classes, json.loads(json.dumps(data.encoding)))
    inputs, labels, _ = table_rows(reviews, known)
    assert torch.equal(inputs, data.inputs)
    assert labels is not None
    assert torch.equal(labels, data.labels)


def test_the_text_is_never_taken_for_the_label(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("kind,text\nx,good day\ny,bad day\n")
    with pytest.warns(UserWarning, match="the labels are column 'kind', the last one"):
        assert read(str(path), columns=Columns(text="text")).classes == ("x", "y")
    path.write_text("text\ngood day\nbad day\n")
    with pytest.raises(LabelNoiseError, match="there is no column left for the labels"):
        read(str(path), columns=Columns(text="text"))
    with pytest.raises(LabelNoiseError, match="'text' cannot be the label and an input"):
        read(str(path), columns=Columns(text="text", label="text"))


def test_a_text_column_that_does_not_exist(reviews: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"unknown column 'reveiw': did you mean 'review'\?"):
        read(str(reviews), columns=Columns(text="reveiw", label="liked"))


def test_texts_to_predict_may_stand_in_a_column_of_another_name(reviews: Path) -> None:
    data = read(str(reviews), columns=Columns(text="review", label="liked"))
    new = reviews.parent / "new.csv"
    new.write_text("comment,when\nso bad,2024\n")
    with pytest.raises(LabelNoiseError, match="unknown column 'review'"):
        table_rows(new, data.known)
    inputs, labels, _ = table_rows(new, data.known, Columns(text="comment"))
    assert torch.equal(inputs[0], data.inputs[5])
    assert labels is None
