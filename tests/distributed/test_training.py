"""`torchrun -m labelnoise train`: several processes, one run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.web import animals
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from labelnoise.record.run import CHECKPOINT, Run, load_checkpoint

pytestmark = pytest.mark.long

TRAIN = ("train", "digits", "--noise", "symmetric:0.5", "--batch-size", "64", "--seed", "3")
BOUND = 60  # seconds in which the others notice that a process is gone
PATIENCE = 240
STORES: list[TCPStore] = []  # where processes meet, while they live


def group(
    words: Sequence[str], world: int = 2, places: Sequence[Path] = ()
) -> list[subprocess.Popen[str]]:
    """So many processes of one command, as torchrun starts them, but nobody watches over them.

    Each may have a working directory of its own, like a machine of its own.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": str(world),
    }
    STORES.append(store)
    return [
        subprocess.Popen(
            [sys.executable, "-m", "labelnoise", *words],
            env={
                **os.environ,
                **common,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "OMP_NUM_THREADS": "1",
            },
            cwd=places[rank] if places else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def ended(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit status, standard output and standard error of each."""
    found = [process.communicate(timeout=PATIENCE) for process in processes]
    return [(p.returncode, out, err) for p, (out, err) in zip(processes, found, strict=True)]


def complaint(found: Sequence[tuple[int, str, str]]) -> str:
    """The one line that one of them has said for all that failed."""
    assert [status for status, _, _ in found] == [2] * len(found)
    (line,) = "".join(errors for _, _, errors in found).splitlines()
    assert line.startswith("labelnoise: ")
    return line


def trained(*words: str, out: Path, world: int = 2) -> Run:
    """The run that a group makes of a command."""
    for status, _, errors in ended(group([*TRAIN, *words, "--out", str(out)], world)):
        assert status == 0, errors
    (run,) = out.iterdir()
    return Run(run)


def torchrun(*words: str, nodes: Sequence[str]) -> list[str]:
    """Its command, on so many machines and processes."""
    command = [sys.executable, "-m", "torch.distributed.run", *nodes, "-m", "labelnoise"]
    return [*command, *words]


def rows(run: Run) -> list[dict[str, Any]]:
    """Without what no two trainings share."""
    return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in run.rows]


def networks(run: Run) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = load_checkpoint(run.path / CHECKPOINT)["method"]["learner"][
        "network"
    ]
    return state


def test_torchrun_trains_and_the_first_process_alone_speaks(tmp_path: Path) -> None:
    words = [*TRAIN, "--epochs", "8", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        torchrun(*words, nodes=["--standalone", "--nproc-per-node", "2"]),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    summary = json.loads(done.stdout)  # once
    assert summary["test_accuracy"] > 0.8
    (run,) = tmp_path.iterdir()
    samples = Run(run).samples
    assert samples is not None
    assert (samples["seen"] == 8).all()  # every row once an epoch, in one process or the other
    assert Run(run).header["spec"]["training"]["processes"] == 2


@pytest.mark.parametrize("method", ["bare", "coteaching", "meta-net"])
def test_a_killed_process_ends_all_and_a_restart_goes_on(tmp_path: Path, method: str) -> None:
    words = ["--method", method, "--epochs", "25", "--set", "threshold=evidence"]
    words = words if method == "bare" else words[:4]
    whole = trained(*words, out=tmp_path / "whole")

    processes = group([*TRAIN, *words, "--out", str(tmp_path / "killed")])
    deadline = time.monotonic() + PATIENCE
    while not list((tmp_path / "killed").glob(f"*/{CHECKPOINT}")):
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes)
        time.sleep(0.02)
    processes[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    first, second = ended(processes)
    assert time.monotonic() - killed < BOUND
    assert second[0] == -signal.SIGKILL
    assert first[0] == 2, first[2]
    assert "another process of the group is gone" in first[2]
    assert "Traceback" not in first[2]

    (folder,) = (tmp_path / "killed").iterdir()
    before = Run(folder).rows
    assert 0 < len(before) < 25
    again = trained(*words, out=tmp_path / "killed")
    assert rows(again) == rows(whole)
    assert all(torch.equal(a, networks(whole)[n]) for n, a in networks(again).items())


def test_an_uneven_last_batch_and_three_processes(tmp_path: Path) -> None:
    run = trained("--epochs", "3", "--batch-size", "50", out=tmp_path, world=3)
    samples = run.samples
    assert samples is not None
    assert len(samples["row"]) % 150 not in {0, 75}  # else the test shows nothing
    assert (samples["seen"] == 3).all()


def test_what_only_the_first_process_knows_is_an_error_of_all(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "cannot write" in complaint(ended(group([*TRAIN, "--out", str(blocked)])))


def test_other_commands_say_that_they_run_alone(tmp_path: Path) -> None:
    found = ended(group(["audit", "digits", "--out", str(tmp_path / "audit")]))
    assert "start it without torchrun" in complaint(found)


def test_scope_accumulation_and_precision_are_other_runs(tmp_path: Path) -> None:
    words = ["--scope", "local", "--accumulate", "2", "--precision", "bfloat16", "--epochs", "6"]
    run = trained(*words, out=tmp_path)
    training = run.header["spec"]["training"]
    assert [training[name] for name in ("scope", "accumulate", "precision")] == [
        "local",
        2,
        "bfloat16",
    ]
    assert run.summary()["test_accuracy"] > 0.7


def test_what_one_process_lacks_is_told_by_the_first(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for name, scale in (("here", 1.0), ("there", 2.0)):
        (tmp_path / name).mkdir()
        inputs = scale * chance.normal(size=(90, 4))
        np.savez(tmp_path / name / "own.npz", x=inputs, y=np.arange(90) % 3)
    (tmp_path / "nothing").mkdir()
    words = ["train", "own.npz", "--epochs", "2", "--out", str(tmp_path / "runs")]
    for second, wanted in (("nothing", "process 1: own.npz: no such"), ("there", "process 1: its")):
        places = [tmp_path / "here", tmp_path / second]
        assert wanted in complaint(ended(group(words, places=places)))


def test_what_goes_wrong_on_another_process_is_said(tmp_path: Path) -> None:
    """Its images vanish in the first epoch; the first process only sees that it is gone."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    chance = np.random.default_rng(0)
    names = [f"{number}.png" for number in range(40)]
    for name in names:
        pixels = chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "here" / name)
        (tmp_path / "there" / name).write_bytes(b"no image")
    lines = ["file,label", *(f"{name},{number % 2}" for number, name in enumerate(names))]
    for name in ("here", "there"):
        (tmp_path / name / "own.csv").write_text("\n".join(lines) + "\n")
    words = ["train", "own.csv", "--image", "file", "--label", "label", "--epochs", "2"]
    found = ended(group([*words, "--out", "runs"], places=[tmp_path / "here", tmp_path / "there"]))
    assert "can be read" in complaint(found)


def test_ctrl_c_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    words = [*TRAIN, "--epochs", "40", "--batch-size", "16", "--out", str(tmp_path)]
    command = torchrun(*words, nodes=["--standalone", "--nproc-per-node", "2"])
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal does it: all of them are interrupted
    )
    deadline = time.monotonic() + PATIENCE
    while not list(tmp_path.glob(f"*/{CHECKPOINT}")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=BOUND)
    said = [line for line in errors.splitlines() if line.startswith("labelnoise: ")]
    assert said == ["labelnoise: stopped; the same command goes on where it was"]
    (folder,) = tmp_path.iterdir()
    assert 0 < len(Run(folder).rows) < 40
    subprocess.run(command, timeout=PATIENCE, check=True, capture_output=True)
    assert len(Run(folder).rows) == 40


def test_two_machines_train_one_network(tmp_path: Path) -> None:
    """Two agents of torchrun that meet, each with a working directory of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meet = f"127.0.0.1:{free.getsockname()[1]}"
    nodes = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    nodes += ["--rdzv-endpoint", meet, "--rdzv-id", "test", "--local-addr", "127.0.0.1"]
    places = [tmp_path / "one", tmp_path / "other"]
    agents = []
    for place in places:
        place.mkdir()
        command = torchrun(*TRAIN, "--epochs", "8", "--json", nodes=nodes)
        agents.append(
            subprocess.Popen(
                command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    found = ended(agents)
    assert [status for status, _, _ in found] == [0, 0], found
    (summary,) = (json.loads(out) for _, out, _ in found if out)  # one of them speaks
    assert summary["test_accuracy"] > 0.8
    (runs,) = (place / "runs" for place in places if any(place.iterdir()))  # and writes
    (run,) = runs.iterdir()
    assert Run(run).header["spec"]["training"]["processes"] == 2


@pytest.mark.parametrize("method", ["bare", "coteaching"])
@pytest.mark.parametrize("scope", ["global", "local"])
def test_a_part_of_which_nothing_can_be_read_does_not_end_a_run_with_batch_norm(
    tmp_path: Path, method: str, scope: str
) -> None:
    files = sorted((animals(tmp_path) / "training").iterdir())
    bad = files[: len(files) // 2]  # ten of twenty: of mini-batches of two and two, many are lost
    for file in bad:
        file.write_bytes(b"broken")
    words = ["train", "animal10n", "--data-dir", str(tmp_path), "--out", str(tmp_path / "runs")]
    words += ["--net", "cnn", "--batch-size", "2", "--epochs", "2"]
    words += ["--method", method, "--scope", scope]
    if method == "coteaching":
        words += ["--set", "noise_rate=0.2"]
    for status, _, errors in ended(group(words)):
        assert status == 0, errors
    (path,) = (tmp_path / "runs").iterdir()
    run = Run(path)
    assert run.rows[-1]["skipped"] == len(bad)
    assert run.samples is not None
    assert int((run.samples["seen"] > 0).sum()) <= len(files) - len(bad)
    learner = load_checkpoint(path / CHECKPOINT)["method"]["learner"]
    assert all(value.isfinite().all() for value in learner["network"].values())
