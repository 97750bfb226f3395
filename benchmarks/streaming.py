"""What streaming images from files costs in time and saves in memory.

    LABELNOISE_DATA=... python benchmarks/streaming.py [--rows 20000] [--epochs 2] [--side 32]

Writes CIFAR-10 as a tree of JPEG files, enlarged if asked, and trains on it twice, each in a
process of its own: with all images in memory, and with none (LABELNOISE_MEMORY=0). The peak is that
of the resident memory of the training process, and of the largest worker beside it (which counts
the pages that it shares with its parent); a training on 100 of the images gives what torch and the
network take by themselves. The runs must be the same to the bit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from labelnoise.data import read

PROGRAM = """
import json, resource, sys, time
from labelnoise.experiment.run import train
begin = time.perf_counter()
data, net, epochs, out = sys.argv[1:]
run = train(data, net=net, epochs=int(epochs), noise="symmetric:0.3", out=out)
print(json.dumps({
    "run": run.path.name,
    "accuracy": run.rows[-1]["test_accuracy"],
    "train_seconds": sum(row["train_seconds"] for row in run.rows) / len(run.rows),
    "seconds": time.perf_counter() - begin,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
}))
"""


def plant(root: Path, rows: int, side: int) -> int:
    """Write the first rows as files; how many bytes they take decoded."""
    source = read("cifar10")
    for row in range(rows):
        folder = root / source.classes[int(source.labels[row])]
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(source.inputs[row].permute(1, 2, 0).numpy())
        image.resize((side, side)).save(folder / f"{row:06d}.jpg", quality=90)
    return rows * source.inputs[0].numel()


def train(data: str, net: str, epochs: int, out: Path, memory: str) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LABELNOISE_MEMORY": memory}
    command = [sys.executable, "-c", PROGRAM, data, net, str(epochs), str(out)]
    done = subprocess.run(  # noqa: S603 - our own program
        command, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--net", default="mlp")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree, runs = Path(folder, "tree"), Path(folder, "runs")
        decoded = plant(tree, asked.rows, asked.side)
        print(f"{asked.rows} files, {decoded / 2**20:.0f} MB decoded")
        few = train(f"{tree}:rows=100", asked.net, 1, runs / "few", "0")
        inside = train(str(tree), asked.net, asked.epochs, runs / "memory", "100000")
        outside = train(str(tree), asked.net, asked.epochs, runs / "files", "0")
        for name, found in (("100 images", few), ("in memory", inside), ("streamed", outside)):
            print(
                f"{name:10} peak {found['peak']:5.0f} MB, a worker {found['worker']:4.0f} MB, "
                f"{found['train_seconds']:6.1f} s an epoch, {found['seconds']:6.1f} s in all"
            )
        assert inside["run"] == outside["run"]
        assert inside["accuracy"] == outside["accuracy"]


if __name__ == "__main__":
    main()
