"""Makes mnist-bare.md and its pictures from the records under results/mnist-bare; trains nothing.

python docs/results/mnist_bare.py
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelnoise.experiment.figure import draw_curves
from labelnoise.experiment.table import percent
from labelnoise.record.run import Run

HERE = Path(__file__).parent
RECORDS = HERE.parents[1] / "results" / "mnist-bare"
NOISES = ("symmetric:0.5", "symmetric:0.7", "class-conditional:0.45")
# Patel and Sastry, WACV 2023: last-epoch test accuracy in percent, mean over five trials.
PUBLISHED_BARE = (94.38, 91.61, 94.11)
PUBLISHED_CCE = (74.30, 61.19, 74.96)
TOLERANCE = (1.0, 1.5, 1.0)

PAPER: dict[str, Any] = {
    "preset": "paper", "epochs": 200, "scale": "raw", "method": "bare", "threshold": "batch",
}  # fmt: skip
RECOMMENDED: dict[str, Any] = {
    "preset": "recommended", "epochs": 50, "method": "bare", "threshold": "evidence",
}  # fmt: skip
MIDPOINT: dict[str, Any] = {**RECOMMENDED, "threshold": "midpoint"}
CCE: dict[str, Any] = {"method": "cce", "threshold": None}


def main() -> None:
    """Write the page and the pictures."""
    runs = records()
    for noise in NOISES:
        curves = [run for run in runs if _is(run, noise=noise, seed=0, preset="paper", epochs=200)]
        draw_curves(curves, HERE / f"mnist-bare-{noise.replace(':', '-')}.png")
    (HERE / "mnist-bare.md").write_text(page(runs))


def records() -> list[Run]:
    """All runs that the page is made of."""
    return [Run(path) for path in sorted(RECORDS.glob("*.json.gz"))]


def page(runs: list[Run]) -> str:
    """The page with its tables filled in."""
    text = (HERE / "mnist-bare.template.md").read_text()
    for name, table in {
        "{reproduction}": _reproduction(runs),
        "{thresholds}": _thresholds(runs),
        "{presets}": _presets(runs),
        "{steps}": _steps(runs),
    }.items():
        text = text.replace(name, "\n".join(table))
    return text


def _reproduction(runs: list[Run]) -> Iterator[str]:
    yield "| noise | paper | ours | difference | asked | precision | recall | selected |"
    yield "|---" * 8 + "|"
    for noise, published, tolerance in zip(NOISES, PUBLISHED_BARE, TOLERANCE, strict=True):
        found = _find(runs, noise=noise, **PAPER)
        difference = 100 * statistics.mean(run["test_accuracy"] for run in found) - published
        held = "within" if abs(difference) <= tolerance else "NOT within"
        yield _line(
            noise,
            f"{published:.2f}",
            _spread(found),
            f"{difference:+.2f}",
            f"{held} {tolerance}",
            _mean(found, "label_precision"),
            _mean(found, "label_recall"),
            _mean(found, "selected_fraction"),
        )


def _thresholds(runs: list[Run]) -> Iterator[str]:
    yield "| noise | paper's cross-entropy | cross-entropy | `batch` | `class` | `midpoint` |"
    yield "|---" * 6 + "|"
    for noise, published in zip(NOISES, PUBLISHED_CCE, strict=True):
        variants = (CCE, *({"threshold": name} for name in ("batch", "class", "midpoint")))
        cells = (
            _seed0(runs, kept=True, noise=noise, **{**PAPER, **variant}) for variant in variants
        )
        yield _line(noise, f"{published:.2f}", *cells)


def _presets(runs: list[Run]) -> Iterator[str]:
    yield "| noise | `paper`, 200 epochs | `as-printed`, 200 epochs | `recommended`, 50 epochs |"
    yield "|---" * 4 + "|"
    printed = {"preset": "as-printed", "method": "bare"}
    for noise in NOISES:
        cells = (_spread(_find(runs, noise=noise, **a)) for a in (PAPER, printed, RECOMMENDED))
        yield _line(noise, *cells)


def _steps(runs: list[Run]) -> Iterator[str]:
    yield _line("50 epochs, seed 0", *NOISES)
    yield "|---" * (1 + len(NOISES)) + "|"
    steps: dict[str, dict[str, Any]] = {
        "`paper`": {**PAPER, "epochs": 50},
        "with standardised pixels": {**PAPER, "epochs": 50, "scale": "standardised"},
        "and learning rate 1e-3, cosine": {**RECOMMENDED, "threshold": "batch"},
        "and `midpoint`": MIDPOINT,
        "or `evidence`, which is `recommended`": RECOMMENDED,
        "cross-entropy with `recommended`": {**RECOMMENDED, **CCE},
    }
    for name, asked in steps.items():
        yield _line(name, *(_seed0(runs, noise=noise, **asked) for noise in NOISES))


def _is(run: Run, **asked: Any) -> bool:
    spec = run.header["spec"]
    known = {**spec["training"], **spec["settings"], **spec}
    return all(known.get(key) == value for key, value in asked.items())


def _find(runs: list[Run], **asked: Any) -> list[dict[str, Any]]:
    return [run.summary() for run in runs if _is(run, **asked)]


def _seed0(runs: list[Run], *, kept: bool = False, **asked: Any) -> str:
    """Test accuracy of the run with seed 0, and what it kept."""
    (found,) = _find(runs, seed=0, **asked)
    fraction = f" ({percent(found['selected_fraction'])})" if kept else ""
    return percent(found["test_accuracy"]) + fraction


def _spread(found: list[dict[str, Any]]) -> str:
    """Mean and deviation over the seeds, and how many there are."""
    values = [100 * run["test_accuracy"] for run in found]
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation} ({len(values)})"


def _mean(found: list[dict[str, Any]], key: str) -> str:
    return percent(statistics.mean(run[key] for run in found))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
