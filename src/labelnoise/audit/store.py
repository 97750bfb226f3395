"""An audit on disk: a table for a person, and the same in the order of the data for a program."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelnoise.audit.findings import Findings
from labelnoise.audit.source import Source
from labelnoise.errors import LabelNoiseError
from labelnoise.record.disk import write_atomically

ISSUES = "issues.csv"
FINDINGS = "findings.npz"
SUMMARY = "summary.json"

ARRAYS = ("given", "quality", "predicted", "confidence", "selected", "issue", "transition")
WORDS = "words"  # what is no array, as the bytes of JSON
AGAIN = "run the same `labelnoise audit` again, it takes no new training"


def write_findings(folder: Path, findings: Findings, source: Source) -> None:
    """Write the table of issues, the findings themselves, and last the summary."""
    findings.write_csv(folder / ISSUES)
    words = {
        "classes": findings.classes,
        "ids": findings.ids,
        "noise_rate": findings.noise_rate,
        "interval": findings.interval,
    }
    arrays = {name: getattr(findings, name) for name in ARRAYS}
    arrays[WORDS] = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
    write_atomically(folder / FINDINGS, lambda file: np.savez_compressed(file, **arrays))
    summary = json.dumps({"source": source, **findings.summary()}, indent=1) + "\n"
    write_atomically(folder / SUMMARY, lambda file: file.write(summary.encode()))


def read_source(folder: Path) -> Source:
    """What data an audit is of."""
    source: Source | None = _summary(folder / SUMMARY).get("source")
    if source is None:
        raise LabelNoiseError(f"{folder / SUMMARY} does not say what was audited: audit again")
    return source


def read_findings(folder: Path) -> Findings:
    """Read what an audit found, in the order of the data."""
    samples, path = _summary(folder / SUMMARY).get("samples"), folder / FINDINGS
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            words: dict[str, Any] = json.loads(file[WORDS].tobytes())
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in ARRAYS}
        low, high = words["interval"]
        found = Findings(
            classes=tuple(words["classes"]),
            ids=tuple(words["ids"]),
            noise_rate=float(words["noise_rate"]),
            interval=(low, high),
            **arrays,
        )
    except OSError as error:
        raise LabelNoiseError(f"{path}: {error.strerror or error}; {AGAIN}") from error
    except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise LabelNoiseError(f"{path}: damaged ({error!r}); {AGAIN}") from error
    lengths = {len(found.ids), *(len(arrays[name]) for name in ARRAYS[:-1])}
    if lengths != {samples}:
        raise LabelNoiseError(f"{folder}: {FINDINGS} and {SUMMARY} are of two audits; {AGAIN}")
    return found


def _summary(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LabelNoiseError(
            f"{path}: {error.strerror or error}; name a folder that `labelnoise audit` made"
        ) from error
    except ValueError as error:
        raise LabelNoiseError(f"{path}: damaged ({error}); audit again") from error
    return found
