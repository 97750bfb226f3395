"""Runs as tasks of a Dask or Ray cluster that is there already.

A task has a process of its own train one run on the machine that it comes to (`carry_out`). Where
that machine sees the folder of runs, the run is trained in it: when a worker of the cluster is
lost, the cluster gives its tasks to others, which go on after the last finished epoch. Where it
does not, the run is trained in a folder of its own and comes back as bytes.

Here a thread waits for every task. joblib has backends for both clusters, but Dask's waits for ever
for a task that the cluster has given up, and Ray's queues runs behind long ones, hands out no
result before the last is there and by default gives up the tasks of a lost worker.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import platform
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from labelnoise.errors import LabelNoiseError, nearest
from labelnoise.experiment.children import Answer, Children, Errand, Place
from labelnoise.experiment.worker import AWAY

DESK = ".cluster-"  # a folder among the runs, which a machine sees that shares them
LOCK = "lock"  # in it, as long as its command lives
REACHED = 15  # seconds for a cluster to answer
PATIENCE = 120  # seconds for the lock of a run whose worker was given up but lives
SEEN = 70  # seconds until a finished run is seen here: NFS looks again after a minute
BEAT = 1.0  # seconds between looks whether anybody still waits for a run
TRIES = 50  # to clear a desk, in five seconds
RAY_LOST = 3  # workers that a run may lose on Ray before it is the run's fault, as on Dask
RAY_MOST = 90  # runs at a time on Ray, whose server has a hundred threads for a command
GONE = (
    "the cluster at {} is gone; finished epochs are safe where storage is shared: start the same "
    "command again"
)
INSTALL = "labelnoise must be installed on all its machines, the scheduler's too, as it is here"

Submit = Callable[[Errand, str], Answer]
"""Has a cluster `carry_out` an errand, and waits for the answer."""


class Reached(NamedTuple):
    """A cluster that answers, and how many errands it takes at a time at most."""

    submit: Submit
    most: int | None = None


@contextmanager
def cluster_at(address: str, out: Path, at_a_time: int) -> Iterator[Place]:
    """The cluster at an address such as `dask://HOST:PORT`.

    Args:
        address: Its kind and where it is.
        out: The folder of runs' folders, here.
        at_a_time: How many runs it is given at a time.
    """
    kind, _, where = address.partition("://")
    host, _, port = where.rpartition(":")
    if kind not in CLUSTERS or not (host and port.isdecimal()):
        kinds = " or ".join(f"{name}://HOST:PORT" for name in CLUSTERS)
        meant = nearest(kind, CLUSTERS) or next(iter(CLUSTERS))
        place = f"{host or where or 'HOST'}:{port if host and port.isdecimal() else 'PORT'}"
        raise LabelNoiseError(
            f"a cluster is {kinds}, got {address!r}: did you mean {meant}://{place}?"
        )
    home = out.resolve()
    with CLUSTERS[kind](where) as (submit, most), _desk(home) as desk:

        def send(errand: Errand) -> tuple[int, Answer]:
            data_dir = None if errand.data_dir is None else os.path.abspath(errand.data_dir)
            sent = replace(errand, out=str(home), data_dir=data_dir, patience=PATIENCE)
            return errand.number, _received(submit(sent, str(desk)), home / errand.identity)

        yield Place(send, desk, min(at_a_time, most or at_a_time))


@contextmanager
def _desk(home: Path) -> Iterator[Path]:
    """A folder for notes among the runs; those of commands that were killed are cleared."""
    home.mkdir(parents=True, exist_ok=True)
    for left in home.glob(f"{DESK}*"):
        with suppress(OSError, Timeout), FileLock(left / LOCK, timeout=0):
            shutil.rmtree(left, ignore_errors=True)
    desk = Path(tempfile.mkdtemp(prefix=DESK, dir=home))
    try:
        with FileLock(desk / LOCK):
            yield desk
    finally:
        for _ in range(TRIES):  # those who are about to be stopped still leave notes
            shutil.rmtree(desk, ignore_errors=True)
            if not desk.exists():
                break
            time.sleep(0.1)


def _received(answer: Answer, path: Path) -> Answer:
    """The answer, once its run is in place here; what goes wrong with one stops no other."""
    from labelnoise.record.parcel import unwrap
    from labelnoise.record.run import finished

    if "failed" in answer:
        return answer
    try:
        if "parcel" in answer:
            unwrap(answer["parcel"], path)
        deadline = time.monotonic() + SEEN
        while not finished(path) and time.monotonic() < deadline:
            time.sleep(BEAT)
    except (LabelNoiseError, OSError, NotImplementedError) as error:
        return {"failed": f"it is trained, but cannot be put in place: {_line(error)}"}
    if not finished(path):
        return {"failed": f"it is trained, but {path} is not to be seen yet: start again"}
    return {"run": str(path), "before": answer["before"]}


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
        if not training.done():
            return {"failed": "nobody waits for it any more"}
        _, answer = training.result()
        if "failed" in answer:
            return {"failed": f"on {platform.node()}: {answer['failed']}"}
        if shared:
            return answer
        from labelnoise.record.parcel import wrap

        return {**answer, "parcel": wrap(Path(answer["run"]))}


def _threads() -> int:
    """What the cluster says that a task may use; it runs one for each of its cores."""
    told = os.environ.get("OMP_NUM_THREADS", "1")
    return int(told) if told.isdecimal() else 1


def _carry_out_on_dask(errand: Errand, desk: str) -> Answer:
    """`carry_out` in a thread of a Dask worker, which nobody can interrupt but itself."""
    import distributed

    worker: Any = distributed.get_worker()  # type: ignore[attr-defined]
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        waited_for = task is not None and task.state in ("executing", "long-running")
        return waited_for and worker.status.name in ("running", "paused")

    return carry_out(errand, desk, wanted)


# --- the two kinds --------------------------------------------------------------------------------


@contextmanager
def _dask(where: str) -> Iterator[Reached]:
    distributed = _needed("distributed", "dask")
    security = distributed.Security()
    address = f"{'tls' if security.require_encryption else 'tcp'}://{where}"

    async def probe() -> None:
        arguments = security.get_connection_args("client")
        async with distributed.rpc(address, connection_args=arguments) as scheduler:
            await scheduler.identity()

    try:
        # Else it waits for ever for what is no scheduler, such as the page of one.
        asyncio.run(asyncio.wait_for(probe(), REACHED))
        client = distributed.Client(
            address, timeout=REACHED, set_as_default=False, security=security
        )
    except Exception as error:
        raise LabelNoiseError(
            f"no Dask scheduler answers at {where}: start one with 'dask scheduler' and 'dask "
            f"worker {where}', or mend the address ({_line(error)})"
        ) from error
    with client:
        if not client.scheduler_info()["workers"]:
            warnings.warn(
                f"the Dask cluster at {where} has no worker yet, runs wait for one: 'dask worker "
                f"{where}'",
                stacklevel=2,
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
                return {"failed": f"{where} cannot run it: {_line(error)} ({INSTALL})"}
            return answer

        yield Reached(submit)


@contextmanager
def _ray(where: str) -> Iterator[Reached]:
    ray = _needed("ray", "ray")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # says in two lines what is raised
            ray.init(f"ray://{where}", log_to_driver=False, logging_level="CRITICAL")
    except ConnectionError as error:
        raise LabelNoiseError(
            f"no Ray cluster answers at {where}: start one with 'ray start --head "
            f"--ray-client-server-port {where.rpartition(':')[2]}', or mend the address"
        ) from error
    except (RuntimeError, ValueError) as error:  # of another version, or without its client
        raise LabelNoiseError(f"the Ray cluster at {where} is of no use: {_line(error)}") from error
    try:
        gpus = min(1, ray.cluster_resources().get("GPU", 0))  # one for each run, if there are any
        options = {"num_cpus": 1, "num_gpus": gpus, "max_retries": RAY_LOST}
        task = ray.remote(carry_out).options(**options)

        def submit(errand: Errand, desk: str) -> Answer:
            try:
                answer: Answer = ray.get(task.remote(errand, desk))
            except ConnectionError:
                return {"failed": GONE.format(where)}
            except ray.exceptions.WorkerCrashedError as error:
                return {"failed": f"every worker that trained it was lost: {_line(error)}"}
            except Exception as error:
                return {"failed": f"{where} cannot run it: {_line(error)} ({INSTALL})"}
            return answer

        yield Reached(submit, RAY_MOST)
    finally:
        with suppress(Exception):  # the cluster may be gone
            ray.shutdown()


CLUSTERS: dict[str, Callable[[str], AbstractContextManager[Reached]]] = {"dask": _dask, "ray": _ray}
"""How to reach each kind of cluster."""


def _needed(package: str, extra: str) -> Any:
    try:
        found = importlib.import_module(package)
    except ImportError as error:
        raise LabelNoiseError(
            f"a cluster {extra}://... needs {extra}: pip install 'labelnoise[{extra}]'"
        ) from error
    # What they log of a connection that is lost, tracebacks and all, is told here on one line.
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == package:
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return found


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
