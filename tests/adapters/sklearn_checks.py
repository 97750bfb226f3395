"""scikit-learn's own checks, one test each; test_sklearn.py runs them in a process of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from labelnoise import RobustClassifier

QUICK = RobustClassifier(epochs=8, batch_size=32, lr=2e-2)


@parametrize_with_checks([QUICK])  # type: ignore[untyped-decorator]
def test_check(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
