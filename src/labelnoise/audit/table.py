"""The worst labels as a table for a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from labelnoise.audit.findings import Findings

SHOWN = 10


def worst_table(findings: Findings) -> Table:
    """The labels that are most likely wrong, and what they should be."""
    order = findings.worst_first()
    suspects = order[findings.issue[order]]
    table = Table(
        title=f"the {min(SHOWN, len(suspects))} worst of {len(suspects):,} suspects",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for heading in ("sample", "given", "suggested"):
        table.add_column(heading, overflow="fold")
    for heading in ("confidence", "quality"):
        table.add_column(heading, justify="right")
    for row in findings.rows(suspects[:SHOWN]):
        table.add_row(
            row["sample_id"],
            row["given_label"],
            row["predicted_label"],
            f"{row['suggestion_confidence']:.3f}",
            f"{row['label_quality']:.3f}",
        )
    return table
