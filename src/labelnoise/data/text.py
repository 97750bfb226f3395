"""Texts as numbers: TF-IDF of the most frequent words, brought together in a few directions.

The directions are those of latent semantic analysis (Deerwester et al. 1990): words that stand in
the same texts point the same way. A net that sees the words themselves learns wrong labels by
heart, for nearly every text has a word of its own (docs/data.md has the numbers). A text is one
channel, (1, directions), so that all directions are scaled by the same factor: scaled one by one,
those that say least would be magnified.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelnoise.data.labels import missing
from labelnoise.errors import LabelNoiseError

Array = NDArray[np.float32]

WORDS = 2048
DIRECTIONS = 128  # at most; 100,000 texts take 51 MB
TEXTS = 32  # for every direction
FEWEST = 16  # directions, of few texts
# Words of two letters or more; a Chinese or Japanese sign is one, for there are no spaces between.
TOKEN = r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]{2,}"  # noqa: S105


def fit_text(texts: Sequence[str]) -> dict[str, Any]:
    """The words that count, their weights and their directions, as plain JSON."""
    from sklearn.decomposition import TruncatedSVD  # a second that only texts cost
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, token_pattern=TOKEN)
    try:
        weighed = vectorizer.fit_transform(_present(texts))
    except ValueError as error:  # "empty vocabulary"
        raise LabelNoiseError("there are no words in the texts") from error
    words = [str(word) for word in vectorizer.get_feature_names_out()]
    directions = np.eye(len(words))
    wanted = min(DIRECTIONS, max(FEWEST, len(texts) // TEXTS))
    if wanted < min(len(words), len(texts)):
        directions = TruncatedSVD(wanted, random_state=0).fit(weighed).components_.T
    return {
        "words": words,
        "weights": vectorizer.idf_.tolist(),
        "directions": base64.b64encode(directions.astype("<f2").tobytes()).decode(),
    }


def encode_text(texts: Sequence[str], encoding: Mapping[str, Any]) -> Array:
    """(texts, 1, directions); all 0 where no word is known."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        vocabulary=encoding["words"], sublinear_tf=True, token_pattern=TOKEN
    )
    vectorizer.idf_ = np.array(encoding["weights"])
    stored = np.frombuffer(base64.b64decode(encoding["directions"]), "<f2").astype(np.float64)
    # Sparse times dense adds up each text by itself: the same alone and among others.
    inputs = vectorizer.transform(_present(texts)) @ stored.reshape(len(encoding["words"]), -1)
    return np.asarray(inputs, dtype=np.float32)[:, np.newaxis]


def _present(texts: Sequence[str]) -> list[str]:
    return ["" if missing(text) else text for text in texts]
