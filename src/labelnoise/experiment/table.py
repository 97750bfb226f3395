"""Runs as tables that a person likes to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich import box
from rich.table import Table

from labelnoise.methods import method_named
from labelnoise.record.run import Run

ABOUT = ("dataset", "noise", "wrong labels", "net", "preset", "epochs", "seed", "data_seed")
FRACTIONS = {  # headings on two lines, so that a table of one setting fits on 80 columns
    "test_accuracy": "test\naccuracy",
    "test_accuracy_balanced": "\nbalanced",
    "test_accuracy_last10": "last\n10",
    "test_accuracy_best": "\nbest",
    "label_precision": "label\nprecision",
    "label_recall": "label\nrecall",
    "selected_fraction": "fraction\nselected",
}


def runs_table(runs: Sequence[Run]) -> Table:
    """One line a run; what all runs share stands in the title."""
    summaries = [run.summary() for run in runs]
    abouts = [_about(run) for run in runs]
    values = {key: [about[key] for about in abouts] for key in abouts[0]}
    differing = [key for key in values if len(set(values[key])) > 1]
    shared = [f"{key} {values[key][0]}" for key in ABOUT if key not in differing]
    table = Table(
        title=", ".join(shared),
        caption="accuracies and fractions in percent",
        box=box.SIMPLE_HEAD,
        padding=0,
    )
    for key in ("method", *differing):
        table.add_column(f"\n{key}", overflow="fold")
    for heading in (*FRACTIONS.values(), "\nseconds"):
        table.add_column(heading, justify="right", overflow="fold")
    for number, (run, summary) in enumerate(zip(runs, summaries, strict=True)):
        table.add_row(
            label(run),
            *(values[key][number] for key in differing),
            *(percent(summary[key]) for key in FRACTIONS),
            f"{summary['train_seconds']:.1f}",
        )
    return table


def _about(run: Run) -> dict[str, str]:
    """What tells runs apart: what was asked, and how the network was trained."""
    summary, training = run.summary(), run.header["spec"]["training"]
    about = {**training, **{key: summary[key] for key in ABOUT if key in summary}}
    about["wrong labels"] = percent(summary["realised_noise_rate"]) + " %"
    if not run.done:
        about["epochs"] = f"{summary['epochs']} of {training['epochs']}"
    return {key: str(value) for key, value in about.items()}


def label(run: Run) -> str:
    """What a run is called in a table or legend: its method, and settings that are not default."""
    spec = run.header["spec"]
    defaults = asdict(method_named(spec["method"])())  # type: ignore[call-overload]
    changed = [
        value if isinstance(value, str) else f"{name}={value}"
        for name, value in spec["settings"].items()
        if value is not None and value != defaults[name]
    ]
    return " ".join([spec["method"], *changed])


def percent(fraction: float | None) -> str:
    """A fraction as percent with two decimals; what is not known is a dash."""
    return "-" if fraction is None else f"{100 * fraction:.2f}"
