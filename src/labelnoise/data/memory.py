"""How much of the data may lie in memory."""

from __future__ import annotations

import os
from pathlib import Path

from labelnoise.errors import LabelNoiseError

VARIABLE = "LABELNOISE_MEMORY"
"""The environment variable that says how many megabytes of inputs may lie in memory."""

SHARE = 4  # one in four bytes that are free: the parts of a split are copies, others need room, too
UNKNOWN = 4 << 30  # taken for free where the system does not tell
MEGABYTE = 1 << 20


def room() -> int:
    """How many bytes of inputs may lie in memory; what is larger is read when it is needed."""
    asked = os.environ.get(VARIABLE)
    if not asked:
        return available() // SHARE
    try:
        megabytes = float(asked)
        if not 0 <= megabytes < float("inf"):
            raise ValueError(asked)
    except ValueError:
        raise LabelNoiseError(f"{VARIABLE} is a number of megabytes, not {asked!r}") from None
    return int(megabytes * MEGABYTE)


def available() -> int:
    """How many bytes of memory this process may still take, as far as the system tells."""
    found = [free for free in (_of_machine(), _of_group()) if free is not None]
    return min(found, default=UNKNOWN)


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return None


def _of_group(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What is left of a container's limit (cgroup v2), if it has one."""
    try:
        limit = int((folder / "memory.max").read_text())
        return max(0, limit - int((folder / "memory.current").read_text()))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return None
