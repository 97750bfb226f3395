"""The one error that users see, and the suggestion that comes with a wrong name."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


class LabelNoiseError(ValueError):
    """Something the caller can mend; its message is one line that says how."""


def unknown(kind: str, name: str, known: Collection[str]) -> LabelNoiseError:
    """The error for a name that does not exist, with the nearest one that does."""
    meant = nearest(name, known)
    hint = f"did you mean {meant!r}?" if meant else f"choose from {', '.join(sorted(known))}"
    return LabelNoiseError(f"unknown {kind} {name!r}: {hint}")


def nearest(name: str, known: Collection[str], cutoff: float = 0.5) -> str | None:
    """The known name that is most like `name`, if one is at all."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=cutoff)), None)


def noise_rate_lies_in_range(rate: float | None) -> None:
    """Refuse what is not the fraction of wrong labels of any data."""
    if rate is not None and not 0 <= rate < 1:
        raise LabelNoiseError(f"a noise rate lies in [0, 1), got {rate}")


def at_least(least: float, **fields: float) -> None:
    """Refuse fields that are smaller than they may be."""
    for name, value in fields.items():
        if not value >= least:  # NaN neither
            raise LabelNoiseError(f"{name} must be at least {least}, got {value}")
