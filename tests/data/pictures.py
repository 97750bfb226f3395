"""Real image files for tests, made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ("blue", "green", "red")


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> Image.Image:
    """Pixels at random."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def save(path: Path, image: Image.Image, **how: Any) -> Path:
    """Write an image, its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **how)
    return path


def coloured(root: Path, each: int = 12, side: int = 16, suffix: str = ".png") -> Path:
    """Class folders that a network can tell apart: each is mostly one colour."""
    for label, name in enumerate(CLASSES):
        for number in range(each):
            pixels = np.asarray(noise(side, side, seed=1000 * label + number)) // 2
            pixels[..., 2 - label] += 100
            save(root / name / f"{number:03d}{suffix}", Image.fromarray(pixels))
    return root


def truncated(path: Path) -> Path:
    """Cut a file in the middle."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return path
