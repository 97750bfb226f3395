"""Where data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from labelnoise.errors import LabelNoiseError

VARIABLE = "LABELNOISE_DATA"
"""The environment variable that names the data directory."""


def data_directory(data_dir: Path | None = None) -> Path:
    """The directory that was asked for, else LABELNOISE_DATA, else the user's cache."""
    chosen = data_dir or os.environ.get(VARIABLE)
    try:
        return Path(chosen).expanduser() if chosen else _cache() / "labelnoise"
    except RuntimeError as error:  # no home directory, as for a bare user id in a container
        raise LabelNoiseError(f"no home directory for data: set {VARIABLE}") from error


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says to ignore a relative path.
    return cache if cache.is_absolute() else Path.home() / ".cache"
