"""Reproduce: train what an experiment still lacks, in parallel processes, and tell what came out.

What a run needs to go on lies on disk, so workers share nothing: they may be stopped at any moment,
and the same command goes on. A worker ends by itself when its parent is gone, even by kill -9.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from labelnoise.data import read
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.grid import Cell, Experiment, cells, experiment_named, missing
from labelnoise.experiment.outcome import Result
from labelnoise.experiment.run import fulfil, specify
from labelnoise.experiment.spec import Spec
from labelnoise.record.disk import write_atomically
from labelnoise.record.run import HEADER, PACKED, Row, Run

ATTEMPTS = 2  # a process that dies with a run may have died for another one's sake


@dataclass
class Job:
    """One run that an experiment consists of.

    Attributes:
        cell: Where it belongs.
        ask: What is to be trained.
        spec: What that means on the data at hand; None if they cannot be read.
        run: The finished run.
        failed: Why there is none.
    """

    cell: Cell
    ask: Ask
    spec: Spec | None = None
    run: Run | None = None
    failed: str = ""
    attempts: int = field(default=0, repr=False)

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"{', '.join(self.cell.place.values())}, seed {self.ask.seed}"

    @property
    def pending(self) -> bool:
        """Whether it is still to be trained."""
        return self.run is None and not self.failed


class Display(Protocol):
    """What is told while jobs run."""

    def begin(self, jobs: Sequence[Job], progress: Path) -> None:
        """Workers start; each writes where it is into the folder `progress`."""

    def ended(self, job: Job) -> None:
        """A job is done or has failed."""


def plan(
    name: str,
    *,
    trials: int | None = None,
    epochs: int | None = None,
    methods: Collection[str] = (),
    only: Mapping[str, str] | None = None,
    out: Path = Path("runs"),
    data_dir: Path | None = None,
) -> tuple[Experiment, list[Job]]:
    """The experiment called `name` and its runs, those found finished under `out` filled in.

    Args:
        name: An experiment's name.
        trials: How many seeds, from 0; by default the experiment's.
        epochs: How long to train; by default the experiment's.
        methods: Which methods to keep; none means all.
        only: Settings that the cells to keep have, as text.
        out: Where runs lie, as folders or packed.
        data_dir: Where data sets are.
    """
    experiment = experiment_named(name)
    found = cells(experiment, methods, only)
    if lacks := missing(found):
        raise LabelNoiseError(f"{name} cannot run in this version, missing are: {', '.join(lacks)}")
    trace = experiment.figure.trace if experiment.figure else ()
    jobs = [
        Job(cell, cell.ask(seed, epochs, trace))
        for seed in range(experiment.trials if trials is None else trials)
        for cell in found
    ]
    _specify(jobs, data_dir)
    finished = {Spec.of(run.header["spec"]).identity(): run for run in runs_in(out) if run.done}
    for job in jobs:
        if job.spec is not None:
            job.run = finished.get(job.spec.identity())
    return experiment, jobs


def runs_in(folder: Path) -> Iterator[Run]:
    """All runs in a folder: folders of runs, and packed ones."""
    for path in sorted(folder.glob(f"*/{HEADER}")):
        yield Run(path.parent)
    for path in sorted(folder.glob(f"*{PACKED}")):
        yield Run(path)


def results(jobs: Sequence[Job]) -> list[Result]:
    """The runs of every cell, in the order of the experiment."""
    by_cell: dict[int, list[Run]] = {}
    order = {id(job.cell): job.cell for job in jobs}
    for job in jobs:
        if job.run is not None:
            by_cell.setdefault(id(job.cell), []).append(job.run)
    return [Result(cell, tuple(by_cell.get(key, ()))) for key, cell in order.items()]


def execute(
    jobs: Sequence[Job], *, workers: int, out: Path, data_dir: Path | None, display: Display
) -> None:
    """Train the pending jobs, `workers` at a time; one that fails does not stop the others."""
    with tempfile.TemporaryDirectory(prefix="labelnoise-") as folder:
        progress = Path(folder)
        display.begin(jobs, progress)
        while pending := [(number, job) for number, job in enumerate(jobs) if job.pending]:
            calls = [
                delayed(_work)(number, job.ask, out, data_dir, progress / str(number), os.getpid())
                for number, job in pending
            ]
            try:
                for number, path, reason in _parallel(workers)(calls):
                    job = jobs[number]
                    job.run, job.failed = (None if path is None else Run(path)), reason
                    display.ended(job)
            except TerminatedWorkerError:
                _blame(
                    [job for number, job in pending if (progress / str(number)).exists()], display
                )


def _parallel(workers: int) -> Callable[..., Any]:
    """Processes that share the cores evenly, and tell of each result when it is there."""
    threads = max(1, _cores() // workers)
    with parallel_config(backend="loky", inner_max_num_threads=threads):
        parallel: Callable[..., Any] = Parallel(
            n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch=workers
        )
        return parallel


def _blame(running: Sequence[Job], display: Display) -> None:
    """A process died, by the kernel's hand perhaps: what was running may try once more."""
    for job in running:
        job.attempts += 1
        if job.pending and job.attempts >= ATTEMPTS:
            job.failed = "its process was killed twice (out of memory?): use fewer --jobs"
            display.ended(job)


def _specify(jobs: Sequence[Job], data_dir: Path | None) -> None:
    """Find out which runs the jobs are; data that cannot be read fail them."""
    read_once: dict[str, Dataset | LabelNoiseError] = {}
    for job in jobs:
        name = job.ask.data
        if name not in read_once:
            try:
                read_once[name] = read(name, data_dir)
            except LabelNoiseError as error:
                read_once[name] = error
        dataset = read_once[name]
        if isinstance(dataset, LabelNoiseError):
            job.failed = str(dataset)
            continue
        job.spec = specify(job.ask, dataset)


# --- in a worker ----------------------------------------------------------------------------------


def _work(
    number: int,
    ask: Ask,
    out: Path,
    data_dir: Path | None,
    progress: Path,
    parent: int,
) -> tuple[int, Path | None, str]:
    """Train one job: its number, and the run's folder or why there is none."""
    _end_with(parent)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    warnings.simplefilter("ignore", UserWarning)
    try:
        run = fulfil(ask, out=out, data_dir=data_dir, watch=partial(_tell, progress))
    except Exception as error:
        what = (
            str(error) if isinstance(error, LabelNoiseError) else f"{type(error).__name__}: {error}"
        )
        return number, None, " ".join(what.split())
    finally:
        progress.unlink(missing_ok=True)
    return number, run.path, ""


def _tell(progress: Path, spec: Spec, row: Row | None) -> None:
    done = 0 if row is None else row["epoch"]
    accuracy = None if row is None else row["test_accuracy"]
    where = {"epoch": done, "epochs": spec.training.epochs, "accuracy": accuracy}
    write_atomically(progress, lambda file: file.write(json.dumps(where).encode()))


@cache
def _end_with(parent: int) -> None:
    """End this process when its parent is gone; nothing is lost that the run's folder keeps."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_workers() -> int:
    """One a core."""
    return _cores()
