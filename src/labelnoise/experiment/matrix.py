"""Tables with one column a method: many problems at a glance, and who is best over all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from labelnoise.experiment.outcome import Line
from labelnoise.experiment.table import escaped, unbarred

Values = dict[str, float | None]


class Matrix(NamedTuple):
    """One table.

    Attributes:
        block: What it shows.
        columns: What stands beside each other.
        lines: The mean over the trials by column, for every line.
        trials: How many of them an entry has, for all numbers that there are.
    """

    block: str
    columns: list[str]
    lines: dict[str, Values]
    trials: list[int]

    @property
    def title(self) -> str:
        """What it shows, and the mean of how many trials."""
        if not self.trials:
            return self.block
        few, many = self.trials[0], self.trials[-1]
        count = f"{many}" if few == many else f"{few} to {many}"
        return f"{self.block}, mean of {count} trial{'' if many == 1 else 's'}"


def matrices(lines: Sequence[Line]) -> list[Matrix]:
    """The entries of a table, by block, line and column in the order in which they come."""
    columns = list(dict.fromkeys(entry.column for entry in lines))
    found: dict[str, dict[str, Values]] = {}
    trials: dict[str, set[int]] = {}
    for entry in lines:
        block = found.setdefault(entry.block, {})
        block.setdefault(entry.line, dict.fromkeys(columns))[entry.column] = entry.mean
        trials.setdefault(entry.block, set()).update([len(entry.ours)] if entry.ours else [])
    return [
        Matrix(block, columns, entries, sorted(trials[block])) for block, entries in found.items()
    ]


def mean_ranks(matrix: Matrix) -> Values:
    """The mean place of every column, 1 for the largest value; who is equal shares a place.

    Lines that lack a column do not count.
    """
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    known = [[v for v in line.values() if v is not None] for line in matrix.lines.values()]
    ranks = [rankdata([-v for v in line]) for line in known if len(line) == len(matrix.columns)]
    if not ranks:
        return dict.fromkeys(matrix.columns)
    means = map(statistics.fmean, zip(*ranks, strict=True))
    return dict(zip(matrix.columns, means, strict=True))


def worst_leads(matrix: Matrix) -> Values:
    """The smallest lead of every column over the first one, on any line that has both."""
    first = matrix.columns[0]
    leads: dict[str, list[float]] = {column: [] for column in matrix.columns}
    for line in matrix.lines.values():
        for column, value in line.items():
            base = line[first]
            if value is not None and base is not None:
                leads[column].append(value - base)
    return {column: min(values, default=None) for column, values in leads.items()}


def matrix_tables(title: str, lines: Sequence[Line]) -> list[Table]:
    """One table a block, for a terminal; the best of a line stands out."""
    tables = []
    for matrix in matrices(lines):
        table = Table(title=f"{title}: {matrix.title}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("", overflow="fold")
        for column in matrix.columns:
            table.add_column(column, justify="right", overflow="fold")
        for name, values in _rows(matrix):
            table.add_row(name, *(Text(text, "bold" if best else "") for text, best in values))
        tables.append(table)
    return tables


def matrix_markdown(title: str, lines: Sequence[Line]) -> str:
    """One heading and one table a block."""
    text = [f"# {title}"]
    for matrix in matrices(lines):
        columns = map(unbarred, matrix.columns)
        text += ["", f"## {matrix.title}", "", f"| | {' | '.join(columns)} |"]
        text.append(f"|---|{'|'.join(['---:'] * len(matrix.columns))}|")
        for name, values in _rows(matrix):
            shown = (f"**{text}**" if best else text for text, best in values)
            text.append(f"| {' | '.join((unbarred(name), *shown))} |")
    return "\n".join(text) + "\n"


def matrix_latex(title: str, lines: Sequence[Line]) -> str:
    r"""One `tabular` a block; needs \usepackage{booktabs}."""
    text = [f"% {title}"]
    for matrix in matrices(lines):
        heading = " & ".join(map(escaped, (matrix.title, *matrix.columns)))
        text += [rf"\begin{{tabular}}{{l{'r' * len(matrix.columns)}}}", r"\toprule"]
        text += [rf"{heading} \\", r"\midrule"]
        for name, values in _rows(matrix):
            shown = (rf"\textbf{{{text}}}" if best else text for text, best in values)
            text.append(rf"{' & '.join((escaped(name), *shown))} \\")
        text += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(text) + "\n"


def _rows(matrix: Matrix) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Names, and values with whether they are the best; those over all lines come last."""
    for name, line in matrix.lines.items():
        yield name, _texts(line, best=max)
    yield "mean rank", _texts(mean_ranks(matrix), best=min)
    yield f"worst against {matrix.columns[0]}", _texts(worst_leads(matrix), sign="+")


def _texts(
    values: Values, best: Callable[[list[float]], float] | None = None, sign: str = ""
) -> list[tuple[str, bool]]:
    known = [value for value in values.values() if value is not None]
    top = best(known) if best is not None and known else None
    return [
        ("-", False) if value is None else (f"{value:{sign}.2f}", value == top)
        for value in values.values()
    ]
