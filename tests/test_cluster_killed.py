"""`labelnoise reproduce --cluster` on real clusters of two workers, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.reproducing import GRACE, MARK, PATIENCE, RUNS, Command, living, rows, training

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]
EPOCHS = "60"
STOPPED = "labelnoise: stopped; the same command goes on where it was"
# A mount of one's own hides the folder of runs, as on a machine that does not share it.
ELSEWHERE = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')


class Cluster:
    """Processes of a cluster; what they start carries their mark."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder, self.mark, self.address = folder, uuid.uuid4().hex, ""
        self.environment = environment
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """One of its processes."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", MARK: self.mark, **self.environment}
        with (self.folder / "cluster.log").open("ab") as log:
            started = subprocess.Popen(
                words,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(started)
        return started

    def end(self) -> None:
        for number in living(self.mark):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for started in self.started:
            started.wait()

    def assert_nobody_trains(self, within: float = GRACE) -> None:
        deadline = time.monotonic() + within
        while left := [*training(self.mark), *self.folder.glob("temporary/labelnoise-*")]:
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.05)


def waited(happened: Callable[[], Any], why: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < deadline, why
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def dask_cluster(
    folder: Path, before: tuple[str, ...] = ()
) -> Iterator[tuple[Cluster, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers, as a user starts them."""
    pytest.importorskip("dask")
    own = folder / "temporary"
    own.mkdir()
    cluster, file = Cluster(folder, TMPDIR=str(own)), folder / "scheduler.json"
    dask = (sys.executable, "-m", "dask")
    try:
        told = ("--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file))
        cluster.start(*dask, "scheduler", "--no-dashboard", *told)
        waited(lambda: file.exists() and file.read_text(), "no scheduler")
        where = json.loads(file.read_text())["address"].removeprefix("tcp://")
        cluster.address = f"dask://{where}"
        one = (*before, *dask, "worker", where, "--no-nanny", "--nthreads", "1", "--no-dashboard")
        yield cluster, [cluster.start(*one) for _ in range(2)]
    finally:
        cluster.end()


@contextmanager
def ray_cluster(folder: Path) -> Iterator[Cluster]:
    """A head with two cores."""
    pytest.importorskip("ray")
    cluster = Cluster(folder)
    ray = str(Path(sys.executable).with_name("ray"))
    try:
        words = ("--num-cpus", "2", "--include-dashboard", "false", "--disable-usage-stats")
        port, clients = free_port(), free_port()
        ports = ("--port", str(port), "--ray-client-server-port", str(clients))
        head = cluster.start(ray, "start", "--head", *ports, *words)
        assert head.wait(PATIENCE) == 0, (folder / "cluster.log").read_text()
        cluster.address = f"ray://127.0.0.1:{clients}"
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The experiment on this machine alone."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, Command(folder, ("--jobs", "2", "--epochs", EPOCHS)).finish()


def sent(folder: Path, cluster: Cluster, *words: str) -> Command:
    return Command(
        folder / "sent", ("--cluster", cluster.address, *(words or ("--epochs", EPOCHS)))
    )


def assert_same(whole: tuple[Path, dict[str, Any]], command: Command, status: int) -> None:
    """Every run is there once, as if it had been trained here."""
    assert status == 0, command.err
    assert json.loads((command.folder / "out").read_text()) == whole[1]
    assert rows(command.folder) == rows(whole[0])
    assert command.finished == RUNS
    said = [line for line in command.err.splitlines() if ": test " in line]
    assert len(said) == RUNS
    assert not list(command.folder.glob("runs/.cluster-*"))


def kept(command: Command) -> dict[Path, bytes]:
    """What is finished of every run, to the last whole line."""
    files = {path: path.read_bytes() for path in command.folder.glob("runs/*/epochs.jsonl")}
    return {path: text[: text.rfind(b"\n") + 1] for path, text in files.items()}


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_dask_a_worker_is_ended_and_every_run_is_there_once(
    by: signal.Signals, whole: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    with dask_cluster(tmp_path) as (cluster, workers):
        command = sent(tmp_path, cluster)
        running = command.start()
        command.wait_until(lambda: command.epochs >= 10, running)
        workers[0].send_signal(by)
        before = kept(command)
        status = running.wait(PATIENCE)
        assert_same(whole, command, status)
        # What was finished before was not trained again, its seconds are those of the first time.
        for path, text in before.items():
            assert text
            assert path.read_bytes().startswith(text)
        cluster.assert_nobody_trains()
        assert workers[0].wait(GRACE) is not None


def test_dask_machines_that_share_no_storage_send_their_runs_back(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "sent").mkdir()
    elsewhere = (*ELSEWHERE, str(tmp_path / "sent"))
    if subprocess.run([*elsewhere, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount: unshare -rm")
    with dask_cluster(tmp_path, elsewhere) as (cluster, workers):
        command = sent(tmp_path, cluster)
        running = command.start()
        command.wait_until(lambda: len(training(cluster.mark)) == 2, running)
        workers[0].kill()
        assert_same(whole, command, running.wait(PATIENCE))
        again = sent(tmp_path, cluster)
        assert again.finish() == whole[1]
        assert again.err == ""  # nothing was left to train


def stop(command: Command, by: signal.Signals) -> int:
    """Start it, and stop it while it trains: the exit status."""
    begun = command.epochs
    running = command.start()
    command.wait_until(lambda: command.epochs >= begun + 4, running)
    running.send_signal(by)
    return running.wait(PATIENCE)


def test_dask_a_command_that_ends_leaves_nobody_training(tmp_path: Path) -> None:
    with dask_cluster(tmp_path) as (cluster, _):
        command = sent(tmp_path, cluster, "--epochs", "100000")
        stop(command, signal.SIGKILL)
        cluster.assert_nobody_trains()
        assert stop(command, signal.SIGINT) == 130
        cluster.assert_nobody_trains()
        assert command.err.splitlines() == [f"{RUNS} runs, {RUNS} of them to train", STOPPED]
        assert not list(command.folder.glob("runs/.cluster-*"))  # not even that of the killed one


def test_dask_a_scheduler_that_is_lost_is_told_on_one_line(tmp_path: Path) -> None:
    with dask_cluster(tmp_path) as (cluster, workers):
        command = sent(tmp_path, cluster, "--epochs", "100000")
        running = command.start()
        command.wait_until(lambda: command.epochs >= 4, running)
        cluster.started[0].kill()
        assert running.wait(PATIENCE) == 1
        last = command.err.splitlines()[-1]
        assert last.startswith(f"labelnoise: failed: {RUNS} runs, from cce, seed 0 on: the cluster")
        assert "start the same command again" in last
        assert "Traceback" not in command.err
        cluster.assert_nobody_trains(within=60)
        for worker in workers:
            worker.wait(60)


def test_ray_a_worker_is_killed_and_every_run_is_there_once(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    with ray_cluster(tmp_path) as cluster:
        command = sent(tmp_path, cluster)
        running = command.start()
        command.wait_until(lambda: command.epochs >= 10, running)
        processes = living(cluster.mark).items()
        worker = next(number for number, words in processes if "ray::carry_out" in words)
        os.kill(worker, signal.SIGKILL)
        before = kept(command)
        assert_same(whole, command, running.wait(PATIENCE))
        for path, text in before.items():
            assert path.read_bytes().startswith(text)
        cluster.assert_nobody_trains()

        stopped = sent(tmp_path, cluster, "--epochs", "100000")
        assert stop(stopped, signal.SIGINT) == 130
        assert stopped.err.splitlines() == [f"{RUNS} runs, {RUNS} of them to train", STOPPED]
        cluster.assert_nobody_trains(within=60)
