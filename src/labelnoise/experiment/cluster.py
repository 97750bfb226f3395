"""Runs as tasks of a Dask or Ray cluster that is there already.

A task has a process of its own train one run on the machine that it comes to (`carry_out`). Where
that machine sees the folder of runs, the run is trained in it: when a worker of the cluster is
lost, the cluster gives its tasks to others, which go on after the last finished epoch. Where it
does not, the run is trained in a folder of its own and comes back as bytes.

Here a thread waits for every task. joblib has backends for both clusters, but Dask's waits for ever
for a task whose workers are lost, and Ray's queues runs behind long ones, gives up those of a lost
worker and hands out no result before the last is there.
"""

from __future__ import annotations

import importlib
import logging
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labelnoise.errors import LabelNoiseError, nearest
from labelnoise.experiment.children import Answer, Children, Errand, Place
from labelnoise.experiment.worker import AWAY

DESK = ".cluster-"  # a folder among the runs, which a machine sees that shares them
REACHED = 15  # seconds for a cluster to answer
PATIENCE = 120  # seconds for the lock of a run whose worker was given up but lives
BEAT = 1.0  # seconds between looks whether anybody still waits for a run
LOST = 3  # workers that one run may lose before it is the run's fault
GONE = (
    "the cluster at {} is gone; finished epochs are safe where storage is shared: start the same "
    "command again"
)

Submit = Callable[[Errand, str], Answer]
"""Has a cluster `carry_out` an errand, and waits for the answer."""


@contextmanager
def cluster_at(address: str, out: Path, at_a_time: int) -> Iterator[Place]:
    """The cluster at an address such as `dask://HOST:PORT`.

    Args:
        address: Its kind and where it is.
        out: The folder of runs' folders, here.
        at_a_time: How many runs it is given at a time.
    """
    kind, separator, where = address.partition("://")
    if not (separator and where) or kind not in CLUSTERS:
        meant = nearest(kind, CLUSTERS) or next(iter(CLUSTERS))
        raise LabelNoiseError(
            f"a cluster is {' or '.join(f'{kind}://HOST:PORT' for kind in CLUSTERS)}, got "
            f"{address!r}: did you mean {meant}://{where or 'HOST:PORT'}?"
        )
    home = out.resolve()
    with CLUSTERS[kind](where) as submit:
        home.mkdir(parents=True, exist_ok=True)
        desks = tempfile.TemporaryDirectory(prefix=DESK, dir=home, ignore_cleanup_errors=True)
        with desks as desk:

            def send(errand: Errand) -> tuple[int, Answer]:
                sent = replace(errand, out=str(home), patience=PATIENCE)
                answer = submit(sent, desk)
                return errand.number, _received(answer, home / errand.identity)

            yield Place(send, Path(desk), at_a_time)


def _received(answer: Answer, path: Path) -> Answer:
    """The answer, with its run in place here if it came as bytes."""
    if "parcel" not in answer:
        return answer
    from labelnoise.record.parcel import unwrap

    return {"run": str(unwrap(answer["parcel"], path).path), "before": answer["before"]}


# --- on the machine of a worker -------------------------------------------------------------------


def carry_out(errand: Errand, desk: str, wanted: Callable[[], bool] = lambda: True) -> Answer:
    """Train a run on this machine.

    Args:
        errand: What to train.
        desk: A folder that is to be seen here where runs lie on storage that machines share.
        wanted: Whether somebody still waits for it; if not, it is stopped.
    """
    shared = os.access(desk, os.W_OK)
    # One that is lost with its worker is cleared by the child.
    own = tempfile.TemporaryDirectory(prefix="labelnoise-", ignore_cleanup_errors=True)
    with own as folder, ThreadPoolExecutor(1) as thread, Children() as children:
        local = errand if shared else replace(errand, out=str(Path(folder, AWAY)))
        notes = Path(desk) if shared else None
        training = thread.submit(children.train, local, Path(folder), _threads(), notes)
        while not wait([training], BEAT).done and wanted():
            pass
        if training.done():
            return _told(training.result()[1], with_run=not shared)
    with suppress(OSError):  # nobody is left who would clear it; the last one succeeds
        Path(desk).rmdir()
    return {"failed": "nobody waits for it any more"}


def _told(answer: Answer, *, with_run: bool) -> Answer:
    """What the child answered, for somebody elsewhere."""
    if "failed" in answer:
        return {**answer, "failed": f"on {platform.node()}: {answer['failed']}"}
    if not with_run:
        return answer
    from labelnoise.record.parcel import wrap

    return {**answer, "parcel": wrap(Path(answer["run"]))}


def _threads() -> int:
    """What the cluster says that a task may use; it runs one for each of its cores."""
    told = os.environ.get("OMP_NUM_THREADS", "1")
    return int(told) if told.isdecimal() else 1


def _carry_out_on_dask(errand: Errand, desk: str) -> Answer:
    """`carry_out` in a thread of a Dask worker, which cannot be interrupted but by itself."""
    import distributed

    worker: Any = distributed.get_worker()  # type: ignore[attr-defined]
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    return carry_out(errand, desk, wanted)


# --- the two kinds --------------------------------------------------------------------------------


@contextmanager
def _dask(where: str) -> Iterator[Submit]:
    distributed = _needed("distributed", "dask")
    remedy = f"start one with 'dask scheduler' and 'dask worker {where}', or mend the address"
    try:
        client = distributed.Client(f"tcp://{where}", timeout=REACHED, set_as_default=False)
    except (OSError, ValueError) as error:
        raise LabelNoiseError(f"no Dask scheduler answers at {where}: {remedy}") from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise LabelNoiseError(
                f"the Dask cluster at {where} has no worker: start some with 'dask worker {where}'"
            )

        def submit(errand: Errand, desk: str) -> Answer:
            try:
                future = client.submit(_carry_out_on_dask, errand, desk, pure=False)
                answer: Answer = future.result()
            except CancelledError:
                return {"failed": GONE.format(where)}
            except distributed.KilledWorker as error:
                return {"failed": f"every worker that trained it was lost: {_line(error)}"}
            except Exception as error:
                return {"failed": f"the cluster at {where} cannot run it: {_line(error)}"}
            return answer

        yield submit


@contextmanager
def _ray(where: str) -> Iterator[Submit]:
    ray = _needed("ray", "ray")
    try:
        ray.init(f"ray://{where}", log_to_driver=False, logging_level="CRITICAL")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise LabelNoiseError(
            f"no Ray cluster answers at {where}: start one with 'ray start --head "
            f"--ray-client-server-port {where.rpartition(':')[2]}', or mend the address"
        ) from error
    try:
        task = ray.remote(carry_out).options(num_cpus=1, max_retries=LOST)

        def submit(errand: Errand, desk: str) -> Answer:
            try:
                answer: Answer = ray.get(task.remote(errand, desk))
            except ConnectionError:
                return {"failed": GONE.format(where)}
            except ray.exceptions.WorkerCrashedError as error:
                return {"failed": f"every worker that trained it was lost: {_line(error)}"}
            except Exception as error:
                return {"failed": f"the cluster at {where} cannot run it: {_line(error)}"}
            return answer

        yield submit
    finally:
        with suppress(Exception):  # the cluster may be gone
            ray.shutdown()


CLUSTERS: dict[str, Callable[[str], AbstractContextManager[Submit]]] = {"dask": _dask, "ray": _ray}
"""How to reach each kind of cluster."""


def _needed(package: str, extra: str) -> Any:
    try:
        found = importlib.import_module(package)
    except ImportError as error:
        raise LabelNoiseError(
            f"a cluster {extra}://... needs {extra}: pip install 'labelnoise[{extra}]'"
        ) from error
    # What they log of a connection that is lost, tracebacks and all, is told here on one line.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith(package)]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return found


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
