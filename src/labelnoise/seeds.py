"""Named random streams: one seed gives independent generators for independent purposes.

A stream depends on nothing but its seed and its names, so what one part of the program draws
never shifts what another one draws, and an epoch's order is known without replaying the others.
"""

from __future__ import annotations

import hashlib

import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream called `names` under `seed`."""
    text = "\0".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: str | int) -> torch.Generator:
    """A CPU generator for the stream called `names` under `seed`."""
    return torch.Generator().manual_seed(derive(seed, *names))
