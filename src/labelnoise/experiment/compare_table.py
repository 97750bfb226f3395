"""A comparison as tables that a person likes to read."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from labelnoise.experiment.compare import MEASURES, Comparison, Group, Pair, Spread
from labelnoise.experiment.table import percent


def comparison_tables(comparison: Comparison) -> list[Table]:
    """For every data set and noise its groups and, where there are two or more, their pairs."""
    tables = []
    for data in dict.fromkeys(group.data for group in comparison.groups):
        title = ", ".join(filter(None, (data, comparison.shared)))
        tables.append(_groups_table(title, [g for g in comparison.groups if g.data == data]))
        pairs = [p for p in comparison.pairs if p.first.data == p.second.data == data]
        if pairs:
            tables.append(_pairs_table(pairs, comparison))
    remarks = [str(tables[-1].caption)]
    apart = sum(pair.first.data != pair.second.data for pair in comparison.pairs)
    if apart:
        remarks.append(f"not comparable, different data: {apart} of {len(comparison.pairs)} pairs")
    tables[-1].caption = "\n".join([*remarks, *comparison.notes])
    return tables


def _groups_table(title: str, groups: Sequence[Group]) -> Table:
    table = _table(("\nmethod",), ("\ntrials", *MEASURES.values()))
    table.title = title
    table.caption = "percent: mean ± standard deviation over seeds"
    for group in groups:
        spreads = [_shown(group.measures[key]) for key in MEASURES]
        table.add_row(group.name, str(len(group.runs)), *spreads)
    return table


def _pairs_table(pairs: Sequence[Pair], comparison: Comparison) -> Table:
    tests = sum(pair.p is not None for pair in comparison.pairs)
    numbers = {
        "\nseeds": [str(len(pair.seeds)) for pair in pairs],
        "differ-\nence": [_points(pair.difference) for pair in pairs],
        "95 %\ninterval": [_span(pair.interval) for pair in pairs],
        "\np": [_p(pair.p) for pair in pairs],
        "p\nHolm": [_p(pair.p_adjusted) for pair in pairs if tests > 1],
        "p\nWilcoxon": [_p(pair.wilcoxon) for pair in pairs],
        "Wilcoxon\nHolm": [_p(pair.wilcoxon_adjusted) for pair in pairs if tests > 1],
    }
    told = {key: cells for key, cells in numbers.items() if set(cells) - {"-"}}
    table = _table(("\nfirst", "\nsecond"), tuple(told))
    table.add_column("\nthe first is", overflow="fold")
    table.caption = "test accuracy, first minus second in percentage points, paired by seed"
    if tests > 1:
        table.caption += f"; p adjusted by Holm for {tests} pairs, intervals are not"
    for number, pair in enumerate(pairs):
        cells = [column[number] for column in told.values()]
        words = ": ".join(filter(None, (pair.verdict, pair.note)))
        table.add_row(pair.first.name, pair.second.name, *cells, words)
    return table


def _table(words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    for heading in words:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def _shown(spread: Spread) -> str:
    deviation = "" if spread.deviation is None else f" ± {percent(spread.deviation)}"
    return percent(spread.mean) + deviation


def _points(difference: float | None) -> str:
    return "-" if difference is None else f"{100 * difference:+.2f}"


def _span(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{_points(interval[0])} to {_points(interval[1])}"


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"
