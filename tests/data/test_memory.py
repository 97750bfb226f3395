from __future__ import annotations

from pathlib import Path

import pytest

from labelnoise.data.memory import _of_group, available, room
from labelnoise.errors import LabelNoiseError


def test_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABELNOISE_MEMORY", raising=False)
    assert 1 << 20 < available() < 1 << 50
    assert room() == pytest.approx(available() / 4, rel=0.3)  # others take and give meanwhile


def test_as_many_megabytes_as_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked, expected in (("100", 100 << 20), ("0.5", 1 << 19), ("0", 0)):
        monkeypatch.setenv("LABELNOISE_MEMORY", asked)
        assert room() == expected


@pytest.mark.parametrize("asked", ["much", "-1", "inf", "nan", "1GB"])
def test_what_is_no_number_of_megabytes(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv("LABELNOISE_MEMORY", asked)
    with pytest.raises(LabelNoiseError, match=f"a number of megabytes, not '{asked}'"):
        room()


def test_the_limit_of_a_container(tmp_path: Path) -> None:
    assert _of_group(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("300\n")
    assert _of_group(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    assert _of_group(tmp_path) == 700
    (tmp_path / "memory.current").write_text("1300\n")
    assert _of_group(tmp_path) == 0
