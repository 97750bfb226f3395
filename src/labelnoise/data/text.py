"""Texts as numbers: the weights of the most frequent words (TF-IDF), which are kept.

A text is one channel, (1, words), so that all words are scaled by the same factor: scaled one by
one, a word that stands in a single text would weigh more than all the others there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelnoise.data.labels import missing
from labelnoise.errors import LabelNoiseError

WORDS = 2048  # inputs; 100,000 texts take 0.8 GB
TOGETHER = 4096  # texts that are made dense at a time
# Words of two letters or more; a Chinese or Japanese sign is one, for there are no spaces between.
TOKEN = r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]{2,}"  # noqa: S105


def fit_text(texts: Sequence[str]) -> dict[str, Any]:
    """The words that count and the weight of each, as plain JSON."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # a second that only texts cost

    vectorizer = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, token_pattern=TOKEN)
    try:
        vectorizer.fit(_present(texts))
    except ValueError as error:  # "empty vocabulary"
        raise LabelNoiseError("there are no words in the texts") from error
    words = [str(word) for word in vectorizer.get_feature_names_out()]
    return {"words": words, "weights": vectorizer.idf_.tolist()}


def encode_text(texts: Sequence[str], encoding: Mapping[str, Any]) -> NDArray[np.float32]:
    """(texts, 1, words), each of length 1, or 0 where no word is known."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        vocabulary=encoding["words"], sublinear_tf=True, token_pattern=TOKEN, dtype=np.float32
    )
    vectorizer.idf_ = np.array(encoding["weights"], dtype=np.float32)
    present = _present(texts)
    inputs = np.empty((len(present), 1, len(encoding["words"])), dtype=np.float32)
    for start in range(0, len(present), TOGETHER):
        some = vectorizer.transform(present[start : start + TOGETHER])
        some.toarray(out=inputs[start : start + TOGETHER, 0])
    return inputs


def _present(texts: Sequence[str]) -> list[str]:
    return ["" if missing(text) else text for text in texts]
