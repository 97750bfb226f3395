"""An audit on disk, read back as it was, whatever its samples are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labelnoise.audit.apply import apply
from labelnoise.audit.findings import Findings
from labelnoise.audit.store import ARRAYS, FINDINGS, read_findings
from labelnoise.data import Columns, read
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError

from .found import decide, findings_of, keep

COLUMNS = {"label": "label", "image": "file"}


def pictures(folder: Path, *rows: str) -> Dataset:
    """A table of images: `name,label`."""
    for number, row in enumerate(rows):
        Image.new("L", (8, 8), 40 * number).save(folder / row.split(",")[0], "png")
    (folder / "table.csv").write_text("\n".join(["file,label", *rows, ""]))
    return read(str(folder / "table.csv"), columns=Columns(**COLUMNS))


def same(one: Findings, other: Findings) -> bool:
    names = ("classes", "ids", "noise_rate", "interval")
    return all(getattr(one, name) == getattr(other, name) for name in names) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS
    )


def test_images_that_are_called_by_numbers_keep_the_order_of_the_data(tmp_path: Path) -> None:
    dataset = pictures(tmp_path, "1000,cat", "999,dog", "7,cat", "8,dog")
    found = findings_of(dataset, {1: 0})
    audit = keep(tmp_path / "audit", found, dataset, dataset.name, **COLUMNS)
    assert same(read_findings(audit), found)
    apply(audit, decide(tmp_path / "decisions.csv", found), tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_text() == (tmp_path / "table.csv").read_text()


def test_an_image_that_is_named_twice_keeps_its_rows_apart_under_planted_noise(
    tmp_path: Path,
) -> None:
    dataset = pictures(tmp_path, "a.png,cat", "a.png,dog", "b.png,cat", "c.png,dog")
    found = findings_of(dataset, {1: 1, 0: 0}, given=[1, 0, 0, 1])
    audit = keep(tmp_path / "audit", found, dataset, dataset.name, **COLUMNS)
    assert same(read_findings(audit), found)


def test_an_audit_that_is_not_whole_says_how_to_mend_it(tmp_path: Path) -> None:
    dataset = read("digits")
    audit = keep(tmp_path / "audit", findings_of(dataset), dataset, "digits")
    path = audit / FINDINGS
    whole = path.read_bytes()
    for broken in (whole[:-100], b"", b"no archive", whole.replace(b"words", b"wurst")):
        path.write_bytes(broken)
        with pytest.raises(LabelNoiseError, match=r"damaged .* run the same `labelnoise audit`"):
            read_findings(audit)
    path.unlink()
    with pytest.raises(LabelNoiseError, match=r"No such file .* run the same `labelnoise audit`"):
        read_findings(audit)
    few = findings_of(read("digits:rows=100"))
    keep(tmp_path / "other", few, read("digits:rows=100"), "digits:rows=100")
    (tmp_path / "other" / FINDINGS).rename(path)
    with pytest.raises(LabelNoiseError, match="of two audits"):
        read_findings(audit)
