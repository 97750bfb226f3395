"""Rows as TensorBoard scalars, read back from the event files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import labelnoise
from labelnoise.adapters.tensorboard import TensorBoard
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.spec import Spec
from labelnoise.record.run import Row, Run

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

ASKED: dict[str, Any] = {"noise": "symmetric:0.5", "device": "cpu"}


def events(run: Path) -> Any:
    everything = {"scalars": 0, "tensors": 0}
    return accumulator.EventAccumulator(str(run / "tensorboard"), everything).Reload()


def steps(run: Path, tag: str) -> list[int]:
    return [event.step for event in events(run).Scalars(tag)]


def assert_holds_all_rows(run: Run) -> None:
    found = events(run.path)
    expected = {
        name: [(row["epoch"], row[name]) for row in run.rows]
        for name, value in run.rows[-1].items()
        if isinstance(value, float | int) and name != "epoch"
    }
    for place, name in enumerate(run.header["classes"]):
        means = [
            (r["epoch"], r["thresholds"]["mean"][place]) for r in run.rows if "thresholds" in r
        ]
        if means:
            expected[f"thresholds/{name}"] = means
    assert set(found.Tags()["scalars"]) == set(expected)
    for tag, values in expected.items():
        assert [event.step for event in found.Scalars(tag)] == [epoch for epoch, _ in values]
        read = [event.value for event in found.Scalars(tag)]
        assert read == pytest.approx([value for _, value in values], rel=1e-6)


class Stopping:
    """Passes rows on and interrupts after an epoch, before or after they were written."""

    def __init__(self, inner: TensorBoard, epoch: int, *, written: bool) -> None:
        self.inner, self.epoch, self.written = inner, epoch, written

    def __call__(self, spec: Spec, row: Row | None) -> None:
        last = row is not None and row["epoch"] == self.epoch
        if self.written or not last:
            self.inner(spec, row)
        if last:
            raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["bare", "cce"])
def test_every_number_of_every_row_is_a_scalar(tmp_path: Path, method: str) -> None:
    watch = TensorBoard(tmp_path)
    run = labelnoise.train(
        "digits", method=method, epochs=3, trace=(2,), out=tmp_path, watch=watch, **ASKED
    )
    assert_holds_all_rows(run)
    tags = events(run.path).Tags()["scalars"]
    assert {"test_accuracy", "train_loss", "train_seconds", "lr", "label_recall"} <= set(tags)
    assert ("thresholds/3" in tags) == (method == "bare")


def test_the_spec_is_there_as_text_once(tmp_path: Path) -> None:
    with TensorBoard(str(tmp_path)) as watch:
        run = labelnoise.train("digits", epochs=2, out=tmp_path, watch=watch, **ASKED)
    (event,) = events(run.path).Tensors("spec/text_summary")
    text = event.tensor_proto.string_val[0].decode()
    assert all(line.startswith("    ") for line in text.splitlines())  # code in Markdown
    assert json.loads(text) == run.header["spec"]


@pytest.mark.parametrize("written", [True, False])
def test_a_resumed_run_has_every_step_once(tmp_path: Path, written: bool) -> None:
    asked = {**ASKED, "epochs": 4, "out": tmp_path}
    with TensorBoard(tmp_path) as watch, pytest.raises(KeyboardInterrupt):
        labelnoise.train("digits", watch=Stopping(watch, 2, written=written), **asked)
    (folder,) = tmp_path.iterdir()
    assert steps(folder, "test_accuracy") == ([1, 2] if written else [1])
    with TensorBoard(tmp_path) as watch:
        run = labelnoise.train("digits", watch=watch, **asked)
    assert steps(folder, "test_accuracy") == [1, 2, 3, 4]
    assert steps(folder, "thresholds/0") == [1, 2, 3, 4]
    assert_holds_all_rows(run)
    assert len(events(folder).Tensors("spec/text_summary")) == 1


def test_a_run_that_began_without_has_its_earlier_epochs_too(tmp_path: Path) -> None:
    def stop(spec: Spec, row: Row | None) -> None:
        if row is not None:
            raise KeyboardInterrupt

    asked = {**ASKED, "epochs": 2, "out": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        labelnoise.train("digits", watch=stop, **asked)
    run = labelnoise.train("digits", watch=TensorBoard(tmp_path), **asked)
    assert_holds_all_rows(run)


def test_one_watcher_serves_several_runs(tmp_path: Path) -> None:
    with TensorBoard(tmp_path) as watch:
        stopping = Stopping(watch, 1, written=True)
        with pytest.raises(KeyboardInterrupt):
            labelnoise.train("digits", epochs=2, out=tmp_path, seed=5, watch=stopping, **ASKED)
        runs = [
            labelnoise.train("digits", epochs=2, out=tmp_path, seed=seed, watch=watch, **ASKED)
            for seed in (0, 1)
        ]
    for run in runs:
        assert_holds_all_rows(run)


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    run = labelnoise.train("digits", epochs=1, out=tmp_path, **ASKED)
    labelnoise.train("digits", epochs=1, out=tmp_path, watch=TensorBoard(tmp_path), **ASKED)
    assert not (run.path / "tensorboard").exists()


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    def block(spec: Spec, row: Row | None) -> None:
        if row is None:
            (tmp_path / spec.identity() / "tensorboard").write_text("in the way")
        watch(spec, row)

    with TensorBoard(tmp_path) as watch, pytest.raises(LabelNoiseError, match="cannot write"):
        labelnoise.train("digits", epochs=1, out=tmp_path, watch=block, **ASKED)


def test_missing_package_is_told_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(LabelNoiseError, match=r"pip install 'labelnoise\[tensorboard\]'"):
        TensorBoard(tmp_path)
