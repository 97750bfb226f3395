"""A run on disk: whole or not at all, and never two writers."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labelnoise.errors import LabelNoiseError
from labelnoise.record.disk import write_atomically
from labelnoise.record.journal import Journal
from labelnoise.record.run import Run, pack

HEADER = {
    "spec": {
        "method": "bare", "dataset": "toy", "noise": "none", "net": "mlp", "preset": "paper",
        "seed": 0, "data_seed": 0, "settings": {},
    }
}  # fmt: skip


class Counter:
    """Something with a state."""

    def __init__(self, size: int = 3) -> None:
        self.value = torch.zeros(size)

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


class Vast:
    """Something whose state fits on no disk; it takes no memory itself."""

    def state_dict(self) -> dict[str, Any]:
        return {"value": torch.zeros(1).expand(10**15)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError("never gets here")


def row(epoch: int, test_accuracy: float = 0.5) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "test_accuracy": test_accuracy,
        "test_accuracy_balanced": test_accuracy / 2,
        "label_precision": None,
        "label_recall": 0.25,
        "selected_fraction": 0.125,
        "train_seconds": 2.0,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two epochs, not finished."""
    method, tally = Counter(), Counter()
    with Journal(tmp_path / "run", HEADER) as journal:
        assert journal.restore(method, tally) == []
        for epoch in (1, 2):
            method.value += 1
            journal.commit(row(epoch), method, tally)
    return tmp_path / "run"


def test_restore_gives_back_the_last_epoch(folder: Path) -> None:
    method, tally = Counter(), Counter()
    with Journal(folder, HEADER) as journal:
        assert journal.restore(method, tally) == [row(1), row(2)]
    assert torch.equal(method.value, torch.full((3,), 2.0))
    assert torch.equal(tally.value, torch.zeros(3))


def test_a_row_that_was_not_appended_is_in_the_checkpoint(folder: Path) -> None:
    lines = (folder / "epochs.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "epochs.jsonl").write_bytes(lines[0])
    with Journal(folder, HEADER) as journal:
        assert journal.restore(Counter(), Counter()) == [row(1), row(2)]
    assert (folder / "epochs.jsonl").read_bytes() == b"".join(lines)


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_half_a_line_is_mended(folder: Path, cut: int) -> None:
    whole = (folder / "epochs.jsonl").read_bytes()
    os.truncate(folder / "epochs.jsonl", len(whole) - cut)
    assert Run(folder).rows == [row(1)]
    with Journal(folder, HEADER) as journal:
        assert journal.restore(Counter(), Counter()) == [row(1), row(2)]
    assert (folder / "epochs.jsonl").read_bytes() == whole


def test_rows_without_a_checkpoint_are_not_counted(folder: Path) -> None:
    (folder / "checkpoint.pt").unlink()
    with Journal(folder, HEADER) as journal:
        assert journal.restore(Counter(), Counter()) == []
        journal.commit(row(1), Counter(), Counter())
    assert Run(folder).rows == [row(1)]


def test_a_row_that_the_checkpoint_does_not_know_is_dropped(folder: Path) -> None:
    whole = (folder / "epochs.jsonl").read_bytes()
    (folder / "epochs.jsonl").write_bytes(whole + json.dumps(row(3)).encode() + b"\n")
    with Journal(folder, HEADER) as journal:
        assert journal.restore(Counter(), Counter()) == [row(1), row(2)]
    assert (folder / "epochs.jsonl").read_bytes() == whole


def test_missing_rows_are_an_error(folder: Path) -> None:
    with Journal(folder, HEADER) as journal:
        journal.commit(row(3), Counter(), Counter())
    lines = (folder / "epochs.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (lines[:1], lines[1:2], lines[1:], lines[:1] + lines[2:]):
        (folder / "epochs.jsonl").write_bytes(b"".join(kept))
        with Journal(folder, HEADER) as journal, pytest.raises(LabelNoiseError, match="damaged"):
            journal.restore(Counter(), Counter())


def test_another_machine_is_told_of(folder: Path) -> None:
    with (
        pytest.warns(UserWarning, match="began with threads None, it goes on with 4"),
        Journal(folder, {**HEADER, "threads": 4}),
    ):
        pass


def test_no_checkpoint_means_a_new_run(tmp_path: Path) -> None:
    with Journal(tmp_path / "run", HEADER) as journal:
        pass
    with journal:
        assert journal.restore(Counter(), Counter()) == []


def test_second_writer_is_turned_away(folder: Path) -> None:
    with (
        Journal(folder, HEADER),
        pytest.raises(LabelNoiseError, match="another process"),
        Journal(folder, HEADER),
    ):
        pass
    with Journal(folder, HEADER):
        pass


def test_too_small_a_disk_is_said_before_training(folder: Path) -> None:
    before = (folder / "checkpoint.pt").read_bytes()
    with (
        Journal(folder, HEADER) as journal,
        pytest.raises(LabelNoiseError, match=r"free some space or choose another --out"),
    ):
        journal.restore(Vast(), Counter())
    assert (folder / "checkpoint.pt").read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_leaves_the_last_epoch_whole(folder: Path) -> None:
    before = (folder / "checkpoint.pt").read_bytes()
    (folder / "checkpoint.pt.part").symlink_to("/dev/full")
    with (
        Journal(folder, HEADER) as journal,
        pytest.raises(LabelNoiseError, match=r"No space left.*finished epochs are safe"),
    ):
        journal.commit(row(3), Counter(), Counter())
    assert (folder / "checkpoint.pt").read_bytes() == before
    assert Run(folder).rows == [row(1), row(2)]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file: Any) -> None:
        file.write(b"ne")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_finished_run_has_samples_and_summary(folder: Path) -> None:
    method = Counter()
    with Journal(folder, HEADER) as journal:
        journal.restore(method, Counter())
        for epoch in range(3, 13):
            journal.commit(row(epoch, epoch / 20), method, Counter())
        assert not Run(folder).done
        run = journal.finish({"row": np.arange(4)})
    assert run.done
    assert run.samples["row"].tolist() == [0, 1, 2, 3]
    summary = run.summary()
    assert summary["epochs"] == 12
    assert summary["test_accuracy"] == summary["test_accuracy_best"] == 0.6
    assert summary["test_accuracy_last10"] == pytest.approx(np.mean(np.arange(3, 13) / 20))
    assert summary["train_seconds"] == 24
    assert summary["label_precision"] is None
    assert summary["run"] == str(folder)


def test_best_last_and_last10_are_not_mixed_up(tmp_path: Path) -> None:
    accuracies = [0.1, 0.9, *([0.4] * 9), 0.2]
    with Journal(tmp_path / "run", HEADER) as journal:
        for epoch, value in enumerate(accuracies, start=1):
            journal.commit(row(epoch, value), Counter(), Counter())
        summary = journal.finish({}).summary()
    assert summary["test_accuracy"] == 0.2
    assert summary["test_accuracy_best"] == 0.9
    assert summary["test_accuracy_last10"] == pytest.approx((9 * 0.4 + 0.2) / 10)


def test_packed_run_gives_the_same_numbers(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="not finished"):
        pack(Run(folder), tmp_path / "kept")
    (folder / "done").touch()
    first = pack(Run(folder), tmp_path / "kept")
    content = first.read_bytes()
    assert pack(Run(folder), tmp_path / "kept").read_bytes() == content
    packed, run = Run(first), Run(folder)
    assert packed.done
    assert packed.rows == run.rows
    assert packed.header == run.header
    assert {**packed.summary(), "run": ""} == {**run.summary(), "run": ""}
    with pytest.raises(LabelNoiseError, match="use the folder"):
        packed.checkpoint()


def test_a_folder_or_file_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="is not a run"):
        Run(tmp_path)
    (tmp_path / "audit" / "model").mkdir(parents=True)
    (tmp_path / "audit" / "model" / "header.json").write_text("{}")
    model = tmp_path / "audit" / "model"
    with pytest.raises(LabelNoiseError, match=f"is not a run: .*; give {model}$"):
        Run(model.parent)
    with pytest.raises(LabelNoiseError, match=r"is not a run: it has no header.json$"):
        Run(tmp_path / "nowhere")
    (tmp_path / "some.json.gz").write_bytes(b"not gzip")
    with pytest.raises(LabelNoiseError, match="is not a packed run"):
        Run(tmp_path / "some.json.gz")
    for text in ("{", "{}", "[]"):
        (tmp_path / "header.json").write_text(text)
        with pytest.raises(LabelNoiseError, match="damaged"):
            Run(tmp_path)


def test_unfinished_run_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="let its training finish"):
        _ = Run(folder).samples
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "header.json").write_text(json.dumps(HEADER))
    with pytest.raises(LabelNoiseError, match="no finished epoch"):
        Run(tmp_path / "new").summary()


class Evil:
    """What an attacker would put into a pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


def test_checkpoint_does_not_execute_code(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"row": Evil()}, folder / "checkpoint.pt")
    with pytest.raises(LabelNoiseError, match="damaged or not ours"):
        Run(folder).checkpoint()
    torch.save({"other": 1}, folder / "checkpoint.pt")
    with pytest.raises(LabelNoiseError, match="damaged or not ours"):
        Run(folder).checkpoint()
    (folder / "checkpoint.pt").write_text("some text")
    with pytest.raises(LabelNoiseError, match="damaged or not ours"):
        Run(folder).checkpoint()
    (folder / "checkpoint.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(LabelNoiseError, match="damaged or not ours"):
        Run(folder).checkpoint()
    assert not Path("executed").exists()
