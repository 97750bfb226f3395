"""Columns: what the user says about the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass, fields

from labelnoise.errors import LabelNoiseError


@dataclass(frozen=True)
class Columns:
    """Names that the data themselves do not give away; each may be left out.

    Attributes:
        label: The column of labels; of a file of embeddings, the file of labels.
        image: The column of paths of images.
        text: The column of texts.
    """

    label: str | None = None
    image: str | None = None
    text: str | None = None

    def refuse(self, data: str, *, but: tuple[str, ...] = ()) -> None:
        """Say that `data` has no use for a name that was given, other than those in `but`."""
        for field in fields(self):
            if getattr(self, field.name) is not None and field.name not in but:
                raise LabelNoiseError(f"{data} has no columns to name: leave --{field.name} out")
