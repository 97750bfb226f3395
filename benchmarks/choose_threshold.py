"""How the recommended threshold was chosen, without the test set.

    LABELNOISE_DATA=... OMP_NUM_THREADS=1 python benchmarks/choose_threshold.py [--epochs 50]

50,000 of MNIST's training images are the data set, the other 10,000 its test part; the official
test images are not looked at. Both thresholds are trained with the preset `recommended` on three
noises and the last epoch's accuracy is printed in percent. About six minutes on one core.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from labelnoise.data import read
from labelnoise.experiment.run import train
from labelnoise.experiment.table import percent
from labelnoise.noise import class_conditional

THRESHOLDS = ("midpoint", "batch")


def held_out_mnist(folder: Path, data_dir: Path | None) -> tuple[Path, Path]:
    """The data as a file of one's own, and the noise that such a file has no map for."""
    dataset = read("mnist", data_dir)
    assert dataset.flips is not None
    order = np.random.default_rng(123).permutation(len(dataset.labels))
    rows, rest = order[:50_000], order[50_000:]
    inputs, labels = dataset.inputs.squeeze(1).numpy(), dataset.labels.numpy()
    data, matrix = folder / "mnist.npz", folder / "class-conditional.npy"
    np.savez(data, x=inputs[rows], y=labels[rows], x_test=inputs[rest], y_test=labels[rest])
    np.save(matrix, class_conditional(0.45, dataset.flips, 10).numpy())
    return data, matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    print("noise", *THRESHOLDS, sep="\t")
    with tempfile.TemporaryDirectory() as folder:
        data, matrix = held_out_mnist(Path(folder), options.data_dir)
        for noise in ("symmetric:0.5", "symmetric:0.7", f"matrix:{matrix}"):
            cells = []
            for threshold in THRESHOLDS:
                changes = {"threshold": threshold}
                run = train(
                    str(data), noise=noise, epochs=options.epochs, changes=changes, out=folder
                )
                cells.append(percent(run.summary()["test_accuracy"]))
            print(noise.rpartition("/")[2], *cells, sep="\t", flush=True)


if __name__ == "__main__":
    main()
