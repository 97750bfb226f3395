"""Images a second that reach the training, over what a bare decode-and-resize loop reaches.

    python benchmarks/input.py [--rounds 9] [--images 2000] [--batch-size 64]

Writes JPEG files that look like photographs to a decoder (noise of all sizes, its strength by size
as in nature; quality 90, colour at half resolution), 48 different ones a size, and goes over them
again and again; they stay in the system's cache. Three contenders take turns, each with all cores:

- bare: a pool of one process a core that was started before; for every file `Image.open`, `draft`
  (JPEG at a half, a quarter or an eighth, no less than twice the size asked for, as the library
  does), `convert("RGB")`, `resize` (bilinear), `numpy.asarray`. Pixels are dropped where they are:
  nothing is put into mini-batches, sent, cropped or made floats;
- the same without `draft`;
- the library: `Train.batches`, from worker processes that start, to the last mini-batch of floats
  on the CPU, cropped at random, mirrored and scaled as for a network from ImageNet.

The cores do nothing else: no network is trained. Ratios are of one round; more is better. The first
is of images a second. The second is of processor time an image, of all processes (of the bare loop
without what its pool takes): what is left of it on a machine that others use, too. The issue's goal
is 0.9.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from alternating import Ratio, by_turns
from labelnoise.data.augment import crop_and_flip, crop_to
from labelnoise.data.scale import imagenet
from labelnoise.data.stored import Files, Names
from labelnoise.data.train import Augment, Train

BARE, WHOLE, LIBRARY = "bare", "bare, whole files", "library"
DIFFERENT = 48
SIZES = {  # width and height of the files, side that they are decoded to, what is cut out of it
    "500x375 to 256, 224 of it": ((500, 375), 256, 224),
    "1600x1200 to 256, 224 of it": ((1600, 1200), 256, 224),
    "64x64 to 32": ((64, 64), 32, None),
}


def photograph(width: int, height: int, chance: np.random.Generator) -> Image.Image:
    """Noise whose strength grows with its size, most of it the same in all colours."""
    side, pixels = 2, np.zeros((height, width, 3))
    while side <= max(width, height):
        for colours, strength in ((1, 1.0), (3, 0.3)):
            grain = chance.normal(size=(side, side, colours)) * strength * 90 / side**0.6
            for colour in range(3):
                layer = Image.fromarray(grain[:, :, colour % colours].astype(np.float32))
                layer = layer.resize((width, height), Image.Resampling.BICUBIC)
                pixels[:, :, colour] += np.asarray(layer)
        side *= 2
    return Image.fromarray((128 + pixels).clip(0, 255).astype(np.uint8))


def plant(root: Path, size: tuple[int, int]) -> list[str]:
    """Write the files; their names."""
    chance = np.random.default_rng(0)
    names = [f"{number:04d}.jpg" for number in range(DIFFERENT)]
    for name in names:
        photograph(*size, chance).save(root / name, quality=90)
    return names


def bare(paths: list[str], side: int, least: int | None) -> float:
    """Decode and resize; the processor time that it took."""
    begin = time.process_time()
    for path in paths:
        with Image.open(path) as image:
            if least is not None:
                image.draft("RGB", (least, least))
            plain = image.convert("RGB")
            if plain.size != (side, side):
                plain = plain.resize((side, side), Image.Resampling.BILINEAR)
            np.asarray(plain)
    return time.process_time() - begin


def busy() -> float:
    """Processor time of this process and of all that it has started and that have ended."""
    return sum(os.times()[:4])


def measured(title: str, root: Path, images: int, batch_size: int, rounds: int) -> None:
    size, side, crop = SIZES[title]
    names = plant(root, size)
    paths = [os.path.join(root, names[number % DIFFERENT]) for number in range(images)]
    tasks = [paths[begin : begin + 32] for begin in range(0, images, 32)]
    files = Files(str(root), Names(names), torch.arange(images) % DIFFERENT, (3, side, side))
    augment: Augment = crop_and_flip if crop is None else crop_to(crop)
    labels = torch.zeros(images, dtype=torch.long)
    train = Train(files, labels, imagenet(files), batch_size, seed=0, augment=augment)  # type: ignore[arg-type]
    cores = len(os.sched_getaffinity(0))
    worked: dict[str, list[float]] = {BARE: [], WHOLE: [], LIBRARY: []}
    with multiprocessing.get_context("fork").Pool(cores) as pool:

        def loop(number: int, name: str, least: int | None) -> None:
            work = partial(bare, side=side, least=least)
            worked[name].append(sum(pool.imap_unordered(work, tasks)))

        def library(number: int) -> None:
            begin = busy()
            assert sum(len(batch.inputs) for batch in train.batches(number)) == images
            worked[LIBRARY].append(busy() - begin)

        contenders: dict[str, Callable[[int], None]] = {
            BARE: partial(loop, name=BARE, least=2 * side),
            WHOLE: partial(loop, name=WHOLE, least=None),
            LIBRARY: library,
        }
        seconds = by_turns(contenders, rounds)
    kilobytes = statistics.fmean((root / name).stat().st_size for name in names) / 1024
    print(f"{title} ({kilobytes:.0f} kB a file, {cores} cores, {images} images a round)")
    for name, found in seconds.items():
        used = worked[name][1:]  # not the round that warms up
        each = statistics.median(used) / images * 1e6
        print(
            f"  {name:18} {images / statistics.median(found):6.0f} images a second, "
            f"{spread(seconds[BARE], found)} of bare; {each:6.0f} us of processor time an image, "
            f"{spread(worked[BARE][1:], used)} of bare"
        )
    print(flush=True)


def spread(over: list[float], under: list[float]) -> str:
    """The median and the quartiles of ratios."""
    ratio = Ratio.of("", over, under, None)
    low, _, high = statistics.quantiles(ratio.values, n=4, method="inclusive")
    return f"{ratio.median:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=64)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for title, ((width, _), _, _) in SIZES.items():
        images = asked.images * 500 // width  # small files are over too soon, large ones too late
        with tempfile.TemporaryDirectory() as folder:
            measured(title, Path(folder), images, asked.batch_size, asked.rounds)


if __name__ == "__main__":
    main()
