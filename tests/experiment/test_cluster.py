"""What a machine of a cluster does with an errand, and what is wrong with an address."""

from __future__ import annotations

import importlib
import re
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from labelnoise import __version__
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.children import Errand
from labelnoise.experiment.cluster import CLUSTERS, _desk, carry_out, cluster_at
from labelnoise.experiment.run import fulfil, understand
from labelnoise.record.parcel import unwrap, wrap
from labelnoise.record.run import Run

ASK = Ask("digits", "cce", "symmetric:0.5", epochs=2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fulfil(ASK, out=tmp_path_factory.mktemp("finished"))


def errand(out: Path, **others: Any) -> Errand:
    _, spec, _ = understand(ASK, None)
    versions = {"labelnoise": __version__}
    made = Errand(7, asdict(ASK), spec.identity(), str(out), versions=versions, cwd=str(out))
    return replace(made, **others)


def rows(run: Run) -> list[dict[str, Any]]:
    """Without what a clock decides."""
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in run.rows]


@pytest.mark.long
def test_where_storage_is_shared_the_run_is_trained_in_its_place(
    finished: Run, tmp_path: Path
) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    answer = carry_out(errand(tmp_path / "runs"), str(desk))
    assert answer == {"run": str(tmp_path / "runs" / finished.path.name), "before": 0}
    assert rows(Run(answer["run"])) == rows(finished)
    assert not list(desk.iterdir())  # notes of where it is, while it is


def test_where_it_is_not_the_run_comes_back_whole(finished: Run, tmp_path: Path) -> None:
    answer = carry_out(errand(tmp_path / "never"), str(tmp_path / "no such desk"))
    assert not (tmp_path / "never").exists()
    assert not Path(answer["run"]).exists()  # cleared
    run = unwrap(answer["parcel"], tmp_path / "runs" / finished.path.name)
    assert run.done
    assert rows(run) == rows(finished)
    assert run.samples["given"].tolist() == finished.samples["given"].tolist()
    assert run.checkpoint()["row"]


def test_a_parcel_takes_the_place_of_a_beginning_but_of_no_finished_run(
    finished: Run, tmp_path: Path
) -> None:
    parcel, path = wrap(finished.path), tmp_path / "run"
    path.mkdir()
    for name in ("header.json", "epochs.jsonl"):
        (path / name).write_bytes(parcel[name][:20])
    assert unwrap(parcel, path).rows == finished.rows
    changed = {**parcel, "epochs.jsonl": b"", "../outside": b""}
    assert unwrap(changed, path).rows == finished.rows
    assert [each.name for each in tmp_path.iterdir()] == ["run"]
    (path / "done").unlink()
    with pytest.raises(LabelNoiseError, match="is not finished"):
        wrap(path)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"identity": "another"}, r"the data here \(digits\), the weights or"),
        ({"versions": {"labelnoise": "0.0.1"}}, "and 0.0.1 where the command was given"),
    ],
)
def test_what_is_wrong_there_is_told_here_and_where_it_was(
    others: dict[str, Any], why: str, tmp_path: Path
) -> None:
    answer = carry_out(errand(tmp_path / "runs", **others), str(tmp_path))
    assert set(answer) == {"failed"}
    assert answer["failed"].startswith(f"on {socket.gethostname()}: ")
    assert re.search(why, answer["failed"])
    assert not (tmp_path / "runs").exists()


def test_a_run_that_nobody_waits_for_is_stopped(tmp_path: Path) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    long = errand(tmp_path / "runs", ask={**asdict(ASK), "epochs": 100_000}, identity="any")
    answer = carry_out(long, str(desk), lambda: False)
    assert answer == {"failed": "nobody waits for it any more"}
    assert not list(desk.iterdir())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("dsk://here:1", "got 'dsk://here:1': did you mean dask://here:1?"),
        ("here:8786", "a cluster is dask://HOST:PORT or ray://HOST:PORT, got 'here:8786'"),
        ("dask://", "did you mean dask://HOST:PORT?"),
        ("ray://head", "did you mean ray://head:PORT?"),
    ],
)
def test_an_address_is_of_a_known_kind(address: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError) as raised, cluster_at(address, tmp_path / "runs", 1):
        pass
    assert hint in str(raised.value)
    assert not list(tmp_path.iterdir())


REACH = """
import sys
from pathlib import Path
import labelnoise.experiment.cluster as cluster
cluster.REACHED = 1
with cluster.cluster_at(sys.argv[1], Path("runs"), 1):
    pass
"""


@pytest.mark.parametrize("listens", [False, True])
def test_what_is_no_scheduler_is_told_on_one_line(listens: bool, tmp_path: Path) -> None:
    """Nobody, or somebody who never says a word, as the page of a scheduler does."""
    pytest.importorskip("dask")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if listens:
            other.listen()
        where = f"127.0.0.1:{other.getsockname()[1]}"
        # In a process of its own: here "distributed" may be these tests' own package.
        done = subprocess.run(
            [sys.executable, "-c", REACH, f"dask://{where}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    last = done.stderr.splitlines()[-1]
    told = "labelnoise.errors.LabelNoiseError: no Dask scheduler answers at "
    assert last.startswith(f"{told}{where}: start one with ")
    assert not list(tmp_path.iterdir())


def test_desks_of_commands_that_were_killed_are_cleared_and_no_others(tmp_path: Path) -> None:
    for name in ("killed", "lives"):
        (tmp_path / f".cluster-{name}").mkdir()
        (tmp_path / f".cluster-{name}" / "0.progress").write_text("{}")
    with FileLock(tmp_path / ".cluster-lives" / "lock"), _desk(tmp_path) as own:
        assert {path.name for path in tmp_path.iterdir()} == {".cluster-lives", own.name}
    assert [path.name for path in tmp_path.iterdir()] == [".cluster-lives"]


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_library_that_is_missing_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    match = rf"pip install 'labelnoise\[{kind}\]'"
    with pytest.raises(LabelNoiseError, match=match), cluster_at(f"{kind}://x:1", tmp_path, 1):
        pass
