"""The one error that users see, and the suggestion that comes with a wrong name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class LabelNoiseError(ValueError):
    """Something the caller can mend; its message is one line that says how."""


def unknown(kind: str, name: str, known: Iterable[str]) -> LabelNoiseError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    nearest = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(names)}"
    return LabelNoiseError(f"unknown {kind} {name!r}: {hint}")


def at_least(least: float, **fields: float) -> None:
    """Refuse fields that are smaller than they may be."""
    for name, value in fields.items():
        if value < least:
            raise LabelNoiseError(f"{name} must be at least {least}, got {value}")
