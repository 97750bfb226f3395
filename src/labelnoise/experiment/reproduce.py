"""Reproduce: train what an experiment still lacks, in parallel processes, and tell what came out.

What a run needs to go on lies on disk, so workers share nothing: they may be stopped at any moment,
and the same command goes on. A worker ends by itself when its parent is gone, even by kill -9.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from joblib import Parallel, delayed
from pydantic import ValidationError

from labelnoise.data import read
from labelnoise.data.dataset import Dataset
from labelnoise.data.directory import VARIABLE
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.children import Children, Errand, Place
from labelnoise.experiment.cluster import cluster_at
from labelnoise.experiment.grid import (
    Cell,
    Experiment,
    Figure,
    cells,
    check_classes,
    experiment_named,
    missing,
)
from labelnoise.experiment.header import versions
from labelnoise.experiment.learners import weights_file
from labelnoise.experiment.machine import cores
from labelnoise.experiment.outcome import Result, is_of
from labelnoise.experiment.run import specify
from labelnoise.experiment.spec import Spec
from labelnoise.record.run import HEADER, PACKED, Run


@dataclass
class Job:
    """One run that an experiment consists of.

    Attributes:
        cell: Where it belongs.
        ask: What is to be trained.
        spec: What that means on the data at hand; None if they cannot be read.
        run: The finished run.
        before: Epochs of it that were finished when work on it began.
        failed: Why there is none.
    """

    cell: Cell
    ask: Ask
    spec: Spec | None = None
    run: Run | None = None
    before: int = 0
    failed: str = ""

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

    def begin(self, jobs: Sequence[Job], desk: Path) -> None:
        """Workers start; job number N leaves a note of where it is in `desk` as `N.progress`."""

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
    to_train: bool = True,
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
        to_train: Without, no data are read: every finished run counts, whatever data it had.
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
    if to_train:
        _specify(jobs, data_dir, name, experiment.figure)
    finished = _finished(out)
    for job in jobs:
        for spec, run in finished:
            if spec == job.spec if to_train else is_of(spec, job.ask):
                job.run = run
    return experiment, jobs


def _finished(folder: Path) -> list[tuple[Spec, Run]]:
    """The finished runs in a folder; one that cannot be read is not one."""
    found = []
    for path in _paths(folder):
        try:
            run = Run(path)
            if run.done:
                found.append((Spec.of(run.header["spec"]), run))
        except (LabelNoiseError, ValidationError) as error:
            reason = str(error).splitlines()[0].removeprefix(f"{path} is ")
            warnings.warn(f"{path} is left aside: {reason}", stacklevel=2)
    return found


def runs_in(folder: Path) -> Iterator[Run]:
    """All runs in a folder: folders of runs, and packed ones."""
    return (Run(path) for path in _paths(folder))


def _paths(folder: Path) -> list[Path]:
    folders = [path.parent for path in sorted(folder.glob(f"*/{HEADER}"))]
    return folders + sorted(folder.glob(f"*{PACKED}"))


def results(jobs: Sequence[Job]) -> list[Result]:
    """The runs of every cell, in the order of the experiment."""
    by_cell: dict[int, list[Run]] = {}
    order = {id(job.cell): job.cell for job in jobs}
    for job in jobs:
        if job.run is not None:
            by_cell.setdefault(id(job.cell), []).append(job.run)
    return [Result(cell, tuple(by_cell.get(key, ()))) for key, cell in order.items()]


def execute(
    jobs: Sequence[Job],
    *,
    workers: int | None,
    out: Path,
    data_dir: Path | None,
    display: Display,
    cluster: str | None = None,
) -> None:
    """Train the pending jobs; one that fails does not stop the others.

    Args:
        jobs: All of them, those that are finished too.
        workers: How many at a time; by default one a core, on a cluster as many as it takes.
        out: The folder of runs' folders.
        data_dir: Where data sets are; by default as each machine's LABELNOISE_DATA says.
        display: Is told how it goes.
        cluster: The address of a cluster to train on, such as `dask://HOST:PORT`.
    """
    twins = _by_identity(jobs)
    errands = [_errand(jobs[number], number, out, data_dir) for number in twins]
    if cluster is None:
        place = here(workers or default_workers(), len(jobs))
    else:
        place = cluster_at(cluster, out, workers or len(errands))
    with place as (send, desk, at_a_time):
        display.begin(jobs, desk)
        # Threads that wait for processes: a run that takes its process down takes down no other.
        parallel = Parallel(
            at_a_time, backend="threading", return_as="generator_unordered", batch_size=1
        )
        for number, answer in parallel(delayed(send)(errand) for errand in errands):
            for job in twins[number]:
                job.run = Run(answer["run"]) if "run" in answer else None
                job.failed = answer.get("failed", "")
                job.before = answer.get("before", 0)
                display.ended(job)


@contextmanager
def here(workers: int, jobs: int) -> Iterator[Place]:
    """This machine, so many at a time of so many in all."""
    # By all runs, not by those that are left: a run that goes on has the threads that it had.
    threads = max(1, cores() // min(workers, jobs))
    folders = tempfile.TemporaryDirectory(prefix="labelnoise-", ignore_cleanup_errors=True)
    with folders as folder, Children() as children:
        desk = Path(folder)
        yield Place(partial(children.train, desk=desk, threads=threads), desk, workers)


def _errand(job: Job, number: int, out: Path, data_dir: Path | None) -> Errand:
    """What is sent out for a job."""
    return Errand(
        number=number,
        ask=asdict(job.ask),
        identity=job.spec.identity() if job.spec else "",
        out=str(out),
        data_dir=None if data_dir is None else str(data_dir),
        versions={name: versions()[name] for name in ("labelnoise", "torch")},
        cwd=os.getcwd(),
        environment={VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {},
    )


def _by_identity(jobs: Sequence[Job]) -> dict[int, list[Job]]:
    """Pending jobs that are the same run, by the number of the first.

    Several are, where an axis has no meaning for a method: a noise rate for BARE.
    """
    first: dict[str, int] = {}
    found: dict[int, list[Job]] = {}
    for number, job in enumerate(jobs):
        if job.pending and job.spec is not None:
            place = first.setdefault(job.spec.identity(), number)
            found.setdefault(place, []).append(job)
    return found


def _specify(
    jobs: Sequence[Job], data_dir: Path | None, experiment: str, figure: Figure | None
) -> None:
    """Find out which runs the jobs are; data or weights that cannot be read fail them."""
    read_once: dict[str, Dataset | LabelNoiseError] = {}
    for job in jobs:
        name = job.ask.data
        with _errors_naming(experiment):
            asked = job.ask.without_data()
        try:
            weights = weights_file(asked, data_dir)
        except LabelNoiseError as error:  # not after an hour of reading images
            job.failed = str(error)
            continue
        if name not in read_once:
            try:
                read_once[name] = read(name, data_dir)
            except LabelNoiseError as error:
                read_once[name] = error
        dataset = read_once[name]
        if isinstance(dataset, LabelNoiseError):
            job.failed = str(dataset)
            continue
        with _errors_naming(experiment):
            job.spec = specify(job.ask, dataset, weights)
            if figure is not None:
                check_classes(figure, job.cell, len(dataset.classes))


@contextmanager
def _errors_naming(experiment: str) -> Iterator[None]:
    try:
        yield
    except LabelNoiseError as error:
        raise LabelNoiseError(f"{experiment}: {error}") from error


def default_workers() -> int:
    """One a core."""
    return cores()
