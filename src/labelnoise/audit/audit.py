"""Audit: one training run over all rows, and what it found written into a folder.

`issues.csv` has one row a sample, worst first; `summary.json` what is true of all of them;
`report.html` is for a person to go through; `model` is a run like any other, which `predict` takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelnoise.audit.findings import Findings
from labelnoise.audit.recorded import RECORDER, Recorded
from labelnoise.audit.recorder import Recorder
from labelnoise.audit.report import write_report
from labelnoise.audit.source import source_of
from labelnoise.audit.store import ISSUES, write_findings
from labelnoise.data import Columns, read
from labelnoise.data.dataset import Dataset
from labelnoise.data.derive import only
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.estimate import enough_epochs
from labelnoise.experiment.parts import undivided
from labelnoise.experiment.run import (
    Watch,
    Workplace,
    check_words,
    device_named,
    specify,
    train_on,
)
from labelnoise.experiment.spec import Spec
from labelnoise.noise import parse
from labelnoise.record.disk import write_atomically
from labelnoise.record.run import HEADER, Run, finished

REPORT, MODEL, SKIPPED = "report.html", "model", "skipped.txt"
EPOCHS = 12  # at least
DOUBTFUL = 0.3  # a noise rate that few data sets have
FEW = 50  # rows a class
LARGEST, SMALLEST, STEPS = 128, 16, 32  # of batches; steps that an epoch should have


@dataclass(frozen=True)
class Audit:
    """What an audit left behind.

    Attributes:
        folder: Where it lies.
        findings: What it found.
        run: The training behind it.
        against_truth: Where noise was planted, how well it was found: `precision`, `recall`, `f1`
            and `average_precision`.
        skipped: Files that could not be read.
    """

    folder: Path
    findings: Findings
    run: Run
    against_truth: dict[str, float | None]
    skipped: tuple[str, ...] = ()

    def in_words(self) -> list[str]:
        """What a person wants to know, a line each."""
        found = self.findings
        low, high = (f"{100 * bound:.1f}" for bound in found.interval)
        lines = [
            f"{len(found.given):,} labels; about {100 * found.noise_rate:.1f} % seem to be wrong "
            f"({low} to {high} %)"
        ]
        expected = found.expected_precision()
        if expected is None:
            lines.append("no single label looks more likely wrong than right")
        else:
            lines.append(
                f"{int(found.issue.sum()):,} are suspects, of which about {100 * expected:.0f} % "
                "should be wrong"
            )
        if len(found.given) < FEW * len(found.classes):
            lines.append(
                "few rows for a network, which learns some wrong labels by heart: look at the "
                "worst ones whether or not they are suspects"
            )
        if found.noise_rate > DOUBTFUL:
            lines.append(
                "so many wrong labels are rare: if you do not believe it, the network is too weak "
                "for these data (another --net, more --epochs)"
            )
        if self.against_truth:
            told = [
                f"{name.replace('_', ' ')} {'-' if value is None else f'{value:.3f}'}"
                for name, value in self.against_truth.items()
            ]
            lines.append(f"of the noise that was planted: {', '.join(told)}")
        if self.skipped:
            files = "file was" if len(self.skipped) == 1 else "files were"
            listed = self.folder / SKIPPED
            lines.append(f"{len(self.skipped):,} unreadable {files} left out: {listed}")
        lines.append(f"all of them, worst first: {self.folder / ISSUES}")
        lines.append(f"to go through them, open {self.folder / REPORT} in a browser")
        return lines

    def summary(self) -> dict[str, Any]:
        """What a program wants to know."""
        found = {key: self.findings.summary()[key] for key in ("samples", "issues")}
        return {
            "data": self.run.header["spec"]["dataset"],
            **found,
            "noise_rate": self.findings.noise_rate,
            "noise_rate_interval": list(self.findings.interval),
            "expected_precision": self.findings.expected_precision(),
            **self.against_truth,
            "skipped": len(self.skipped),
            "train_seconds": sum(row["train_seconds"] for row in self.run.rows),
            "out": str(self.folder),
        }


def audit_labels(
    data: str,
    *,
    out: str | Path,
    label: str | None = None,
    image: str | None = None,
    text: str | None = None,
    noise: str = "none",
    net: str = "auto",
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    data_seed: int = 0,
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: Watch | None = None,
) -> Audit:
    """Train on all rows of a data set and say which of their labels are wrong.

    Args:
        data: A data set's name or the path of a file or folder; of a known one the whole training
            part. An official test part is left aside.
        out: The folder to write; the same call goes on with an audit that was stopped.
        label: The label column of a table, or the file of labels of `.npy` embeddings.
        image: The column of a table that has the paths of images.
        text: The column of a table that has texts.
        noise: Wrong labels to plant, to try the audit out on labels that are right.
        net: A net's name, `auto`, or `package.module:name`.
        epochs: How long to train; by default for as long as it takes to tell classes apart.
        batch_size: By default 16 to 128, by the number of rows.
        seed: Initialisation and order of the samples.
        data_seed: Which labels the noise hits.
        data_dir: Where data sets are; by default `LABELNOISE_DATA`.
        device: `auto`, `cpu`, `cuda`, `mps`.
        watch: Called with the spec and `None` before the training, the new row after every epoch.
    """
    folder, place = Path(out), device_named(device)
    columns = Columns(label, image, text)
    ask = Ask(
        data=data,
        noise=noise,
        net=net,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        data_seed=data_seed,
        whole=True,
        columns=columns,
    )
    check_words(ask)
    dataset = read(data, None if data_dir is None else Path(data_dir), columns)
    spec = specify(paced(ask, len(dataset.labels)), dataset)
    _check_folder(folder, spec)
    parts = undivided(dataset, parse(noise), data_seed)
    shop = Workplace(dataset, parts, place, folder, watch, folder / MODEL, Recorded)
    run = Run(folder / MODEL) if finished(folder / MODEL) else train_on(spec, shop)
    findings, left_out = findings_of_run(run, dataset)
    source = source_of(dataset, data, columns, noise=spec.noise, left_out=left_out)
    write_findings(folder, findings, source)
    skipped = (*dataset.skipped, *(dataset.ids[row] for row in left_out))
    if skipped:
        listed = "".join(f"{name}\n" for name in skipped)
        write_atomically(folder / SKIPPED, lambda file: file.write(listed.encode()))
    seen = torch.tensor(sorted({*range(len(dataset.labels))} - {*left_out}))
    dataset = only(dataset, seen)
    planted = parse(noise).planted
    write_report(folder / REPORT, findings, dataset, planted=spec.noise if planted else None)
    truth = parts.train.truth if planted else None
    measured = {} if truth is None else against(findings, truth[seen].numpy())
    return Audit(folder, findings, run, measured, skipped)


def findings_of_run(run: Run, dataset: Dataset) -> tuple[Findings, list[int]]:
    """What the record that a run has kept says, and the rows of which it could read nothing."""
    recorder = Recorder(len(dataset.labels), dataset.classes)
    recorder.load_state_dict(run.checkpoint()["method"][RECORDER])
    found = recorder.issues()
    rows = {int(name) for name in found.ids}
    left_out = [row for row in range(len(dataset.labels)) if row not in rows]
    unread = run.skipped
    if not all(dataset.ids and dataset.ids[row] in unread for row in left_out):
        raise LabelNoiseError(
            f"{run.path} has seen {len(found.given)} of {len(dataset.labels)} rows: delete it and "
            "audit again"
        )
    if dataset.ids:
        found = replace(found, ids=tuple(dataset.ids[row] for row in sorted(rows)))
    return found, left_out


def against(findings: Findings, truth: NDArray[np.int64]) -> dict[str, float | None]:
    """How well wrong labels were found, where the right ones are known."""
    from sklearn.metrics import average_precision_score  # a second that only this should cost

    wrong = findings.given != truth
    hits = int((wrong & findings.issue).sum())
    flagged, all_wrong = int(findings.issue.sum()), int(wrong.sum())
    ranked = float(average_precision_score(wrong, 1 - findings.quality)) if all_wrong else None
    return {
        "precision": hits / flagged if flagged else None,
        "recall": hits / all_wrong if all_wrong else None,
        "f1": 2 * hits / (flagged + all_wrong) if flagged + all_wrong else None,
        "average_precision": ranked,
    }


def paced(ask: Ask, rows: int) -> Ask:
    """With a batch size and a number of epochs that suit so many rows, where nothing was said."""
    size = ask.batch_size or LARGEST
    while ask.batch_size is None and size > SMALLEST and rows < size * STEPS:
        size //= 2
    return replace(ask, batch_size=size, epochs=ask.epochs or enough_epochs(rows, size, EPOCHS))


def _check_folder(folder: Path, spec: Spec) -> None:
    """Refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise LabelNoiseError(f"{folder} is a file: name a folder with --out")
    if (folder / MODEL / HEADER).exists():
        held = Spec.of(Run(folder / MODEL).header["spec"])
        if held != spec:
            raise LabelNoiseError(
                f"{folder} holds an audit of other data or with other settings (of "
                f"{held.dataset}): choose another --out"
            )
