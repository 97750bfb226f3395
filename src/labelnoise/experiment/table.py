"""Runs as tables that a person likes to read."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich import box
from rich.table import Table

from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.grid import in_words
from labelnoise.experiment.outcome import Line
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
    return named(spec["method"], changed_settings(spec))


def labels(runs: Sequence[Run]) -> list[str]:
    """Their labels, with the fewest words that tell them apart."""
    names, abouts = [label(run) for run in runs], [_about(run) for run in runs]
    for key in dict.fromkeys([*ABOUT, *abouts[0]]):
        pairs = zip(names, abouts, strict=True)
        longer = [f"{name}, {key} {about.get(key)}" for name, about in pairs]
        if len(set(longer)) > len(set(names)):
            names = longer
    return names


def changed_settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recorded method that are not what it would take by itself."""
    settings = spec["settings"]
    return {
        name: value
        for name, value in settings.items()
        if value is not None and value != _by_default(spec["method"], settings, name)
    }


def _by_default(method: str, settings: Mapping[str, Any], name: str) -> Any:
    """What a setting is beside the others, as the kappa of a threshold; else the method's own."""
    others = {key: value for key, value in settings.items() if key != name}
    for known in (others, {}):
        # A version that has other methods or settings may have recorded it.
        with suppress(LabelNoiseError, TypeError, AttributeError):
            return getattr(method_named(method)(**known), name)
    return None


def named(method: str, settings: Mapping[str, Any]) -> str:
    """A method with settings, in words."""
    return " ".join([method, *(in_words(name, value) for name, value in settings.items())])


def percent(fraction: float | None) -> str:
    """A fraction as percent with two decimals; what is not known is a dash."""
    return "-" if fraction is None else f"{100 * fraction:.2f}"


# --- an experiment beside the paper ---------------------------------------------------------------

OURS = ("ours", "trials", "epochs")
BESIDE = ("paper", "difference", "")  # only where the paper has something to compare with


def experiment_tables(title: str, lines: Sequence[Line]) -> list[Table]:
    """One table a block, for a terminal."""
    tables, headings = [], _headings(lines)
    for block, entries in _blocks(lines).items():
        table = Table(title=f"{title}: {block}", box=box.SIMPLE_HEAD, padding=(0, 1))
        table.add_column("")
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "" else "right")
        for entry in entries:
            table.add_row(entry.line, *_texts(entry)[: len(headings)])
        tables.append(table)
    return tables


def as_markdown(title: str, lines: Sequence[Line]) -> str:
    """One heading and one table a block."""
    text, headings = [f"# {title}"], _headings(lines)
    marks = ["---" if heading == "" else "---:" for heading in headings]
    for block, entries in _blocks(lines).items():
        text += ["", f"## {block}", "", f"| | {' | '.join(headings)} |"]
        text.append(f"|---|{'|'.join(marks)}|")
        text += [
            f"| {' | '.join(map(unbarred, (entry.line, *_texts(entry)[: len(headings)])))} |"
            for entry in entries
        ]
    return "\n".join(text) + "\n"


def unbarred(text: str) -> str:
    """`text` for a cell of a Markdown table."""
    return text.replace("|", r"\|")


def as_csv(lines: Sequence[Line]) -> str:
    """One line an entry, numbers unrounded."""
    text = io.StringIO()
    keys = ("block", "line", "column", "mean", "std", "trials", "epochs", "paper", "paper_std",
            "difference", "word", "why")  # fmt: skip
    writer = csv.DictWriter(text, keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(line.as_dict() for line in lines)
    return text.getvalue()


def as_latex(title: str, lines: Sequence[Line]) -> str:
    r"""One `tabular` a block; needs \usepackage{booktabs}."""
    text, headings = [f"% {title}"], _headings(lines)
    for block, entries in _blocks(lines).items():
        rows = [(block, *headings)]
        rows += [(entry.line, *_texts(entry)[: len(headings)]) for entry in entries]
        heading, *body = [" & ".join(map(escaped, row)) + r" \\" for row in rows]
        columns = "".join("l" if heading == "" else "r" for heading in headings)
        text += [rf"\begin{{tabular}}{{l{columns}}}", r"\toprule", heading, r"\midrule"]
        text += [*body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(text) + "\n"


def _headings(lines: Sequence[Line]) -> tuple[str, ...]:
    return OURS + BESIDE if any(line.paper is not None for line in lines) else OURS


def _blocks(lines: Sequence[Line]) -> dict[str, list[Line]]:
    blocks: dict[str, list[Line]] = {}
    for line in lines:
        blocks.setdefault(line.block, []).append(line)
    return blocks


def _texts(line: Line) -> tuple[str, ...]:
    """An entry's cells; what there is not is a dash."""
    verdict = f"{line.word} ({line.why})" if line.why else line.word
    return (
        _with_deviation(line.mean, line.std),
        str(len(line.ours)) if line.ours else "-",
        str(line.epochs) if line.epochs else "-",
        _with_deviation(line.paper, line.paper_std),
        "-" if line.difference is None else f"{line.difference:+.2f}",
        verdict or "-",
    )


def _with_deviation(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


LATEX: dict[str, str | int | None] = {
    **{sign: f"\\{sign}" for sign in "_%&#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def escaped(text: str) -> str:
    """Text for LaTeX."""
    return text.translate(str.maketrans(LATEX))
