"""What there is to know before a training: of this machine, and of the data."""

from __future__ import annotations

import importlib
import platform
import shutil
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import labelnoise
from labelnoise import nets
from labelnoise.data import Columns, Dataset, read
from labelnoise.experiment.machine import cores

NEEDED = ("torch", "numpy", "scikit-learn", "scipy", "pydantic", "rich", "matplotlib")
OPTIONAL = (
    *("pyarrow", "pillow", "tensorboard", "pandas", "lightning", "transformers", "skorch"),
    *("cleanlab", "torchvision"),
)
GIGABYTE = 1e9
SHOWN = 10  # classes or columns in a line


def machine(out: Path) -> dict[str, Any]:
    """Versions, devices, cores, and the disk that runs under `out` are written to."""
    return {
        "versions": {
            "python": platform.python_version(),
            "labelnoise": labelnoise.__version__,
            **{name: found for name in (*NEEDED, *OPTIONAL) if (found := _version(name))},
        },
        "devices": _devices(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "free_disk_gigabytes": round(_free(out) / GIGABYTE, 1),
        "problems": [problem for problem in (_torchvision(),) if problem],
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _devices() -> list[str]:
    cuda = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    named = [f"cuda:{number} ({name})" for number, name in enumerate(cuda)]
    return [*named, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def _free(out: Path) -> int:
    """Bytes that are free where `out` is or will be."""
    place = out.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def _torchvision() -> str | None:
    """A torchvision that was built for another torch, which also breaks what imports it."""
    if _version("torchvision") is None:
        return None
    try:
        importlib.import_module("torchvision")
    except Exception as error:  # it raises RuntimeError, not ImportError
        reason = " ".join(str(error).split())
        return (
            f"torchvision is installed but does not work with this torch ({reason}), and with it "
            "lightning, torchmetrics and transformers.Trainer cannot be imported: "
            "pip uninstall torchvision (labelnoise does not need it)"
        )
    return None


def understood(
    data: str, data_dir: Path | None = None, columns: Columns | None = None
) -> dict[str, Any]:
    """What was made of `data`: rows, classes, inputs, columns."""
    dataset = read(data, data_dir, columns)
    shape = tuple(dataset.inputs.shape[1:])
    return {
        "data": dataset.name,
        "rows": len(dataset.labels),
        "test_rows": 0 if dataset.test_labels is None else len(dataset.test_labels),
        "classes": len(dataset.classes),
        "rows_per_class": _counts(dataset),
        "input_shape": list(shape),
        "input_type": str(dataset.inputs.dtype).removeprefix("torch."),
        "net": nets.auto(shape),
        **({"skipped": list(dataset.skipped)} if dataset.skipped else {}),
        **_columns(dataset.encoding or {}),
    }


def _counts(dataset: Dataset) -> dict[str, int]:
    """How many rows each class has, rarest first."""
    counts = torch.bincount(dataset.labels, minlength=len(dataset.classes)).tolist()
    pairs = zip(dataset.classes, counts, strict=True)
    return dict(sorted(pairs, key=lambda pair: pair[1]))


def _columns(encoding: Mapping[str, Any]) -> dict[str, Any]:
    """Which columns of a table are the label and the inputs, which are not, and what is missing."""
    if not encoding:
        return {}
    columns = encoding.get("columns", [])
    found = {
        "label_column": encoding.get("label"),
        "rows_without_label": encoding.get("unlabelled"),
        "input_columns": {column["name"]: column["kind"] for column in columns},
        "dropped_columns": encoding.get("dropped"),
        "missing_values": {c["name"]: c["absent"] for c in columns if c["absent"]},
    }
    if not columns and "column" in encoding:  # one column is all there is to learn from
        found["input_columns"] = {encoding["column"]: encoding["kind"]}
    return {key: value for key, value in found.items() if value is not None}


# --- for people -----------------------------------------------------------------------------------


def lines_of_machine(found: Mapping[str, Any]) -> Iterator[str]:
    """What `machine` found, a line each."""
    yield "versions: " + ", ".join(f"{name} {one}" for name, one in found["versions"].items())
    yield "devices:  " + ", ".join(found["devices"])
    yield f"cores:    {found['cores']}, torch uses {found['threads']} by default here"
    yield f"disk:     {found['free_disk_gigabytes']} GB free for runs"
    yield from (f"problem:  {problem}" for problem in found["problems"])


def lines_of_data(found: Mapping[str, Any]) -> Iterator[str]:
    """What was `understood` of data, a line each."""
    test = f", and {found['test_rows']} test rows" if found["test_rows"] else ""
    yield f"data:     {found['data']}, {found['rows']} rows{test}"
    counts = [f"{name} {count}" for name, count in found["rows_per_class"].items()]
    yield f"classes:  {found['classes']}, rarest first: {_few(counts)}"
    shape = " x ".join(map(str, found["input_shape"]))
    yield f"inputs:   {shape}, {found['input_type']}; net {found['net']}"
    if found.get("skipped"):
        yield f"unread:   {len(found['skipped'])} files: {_few(found['skipped'])}"
    if "label_column" in found:
        skipped = f", missing in {n} rows" if (n := found["rows_without_label"]) else ""
        yield f"label:    column {found['label_column']!r}{skipped}"
    for title, key in (
        ("columns: ", "input_columns"),
        ("left out:", "dropped_columns"),
        ("missing: ", "missing_values"),
    ):
        if found.get(key):
            pairs = [f"{name!r} ({what})" for name, what in found[key].items()]
            yield f"{title} {_few(pairs)}"


def _few(things: list[str]) -> str:
    more = len(things) - SHOWN
    return ", ".join(things[:SHOWN]) + (f" and {more} more" if more > 0 else "")
