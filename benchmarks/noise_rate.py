"""How far `--noise-rate auto` is off: the estimate beside the truth over many kinds of noise.

    LABELNOISE_DATA=... python benchmarks/noise_rate.py [--datasets digits,mnist] [--seeds 3]

The estimate sees the given labels of the training part only. Prints a Markdown table: the true
fraction of wrong labels, the estimates of the seeds (of initialisation and order; split and noise
are those of data seed 0), and how far their mean is off.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import torch

from labelnoise.data import read
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.parts import divide
from labelnoise.experiment.run import train
from labelnoise.noise import parse

NOISES = (
    "none",
    *(f"symmetric:{rate}" for rate in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)),
    *(f"class-conditional:{rate}" for rate in (0.2, 0.4, 0.45)),
    *(f"pair:{rate}" for rate in (0.2, 0.4)),
    *(f"instance:{rate}" for rate in (0.2, 0.4)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", default="digits,mnist")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| data set | noise | wrong | estimates | off by |\n|---|---|---:|---|---:|")
    errors = []
    for name in options.datasets.split(","):
        dataset = read(name, options.data_dir)
        matrix = f"matrix:{name}-arbitrary"
        for noise in (*NOISES, matrix):
            if not _can_be_planted(noise, dataset):
                continue
            found = []
            for seed in range(options.seeds):
                with tempfile.TemporaryDirectory() as out:
                    run = train(
                        name,
                        method="coteaching",
                        noise=noise,
                        noise_rate="auto",
                        epochs=1,
                        seed=seed,
                        out=out,
                        data_dir=options.data_dir,
                        device="cpu",
                    )
                    found.append(run.header["noise_rate"])
                    truth = run.header["realised_noise"]["rate"]
            off = statistics.fmean(found) - truth
            errors.append(abs(off))
            shown = ", ".join(f"{rate:.3f}" for rate in found)
            print(f"| {name} | {noise} | {truth:.3f} | {shown} | {off:+.3f} |", flush=True)
    print(f"\nMean absolute error {statistics.fmean(errors):.3f}, largest {max(errors):.3f}.")


def _can_be_planted(noise: str, dataset: Dataset) -> bool:
    """Whether the data set has the map or matrix that the noise needs."""
    try:
        divide(dataset, parse(noise), data_seed=0)
    except LabelNoiseError:
        return False
    return True


if __name__ == "__main__":
    main()
