from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from labelnoise.data.download import Download, DownloadError, fetch, fetch_all, unpack
from labelnoise.errors import LabelNoiseError

from .serving import Cutting, CuttingWhole, Handler, Ranges, md5, serve

BODY = bytes(range(256)) * 40
NOBODY = "http://127.0.0.1:9/"  # the discard port: nothing listens


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def partial_file(folder: Path, data: bytes) -> Path:
    path = folder / "file.bin.part"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", [Ranges, Handler])
def test_fetch_writes_the_verified_file_and_no_part(tmp_path: Path, kind: type[Handler]) -> None:
    with serve({"file.bin": BODY}, kind) as site:
        fetch(site.url + "file.bin", tmp_path / "new" / "file.bin", md5(BODY))
    assert (tmp_path / "new" / "file.bin").read_bytes() == BODY
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file.bin"]


def test_a_partial_file_is_continued(tmp_path: Path) -> None:
    part = partial_file(tmp_path, BODY[:1000])
    with serve({"file.bin": BODY}) as site:
        fetch(site.url + "file.bin", tmp_path / "file.bin", md5(BODY))
    assert site.asked == ["file.bin bytes=1000-"]
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert not part.exists()


def test_a_server_without_ranges_starts_again(tmp_path: Path) -> None:
    partial_file(tmp_path, BODY[:1000])
    with serve({"file.bin": BODY}, Handler) as site:
        fetch(site.url + "file.bin", tmp_path / "file.bin", md5(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_whole_part_needs_no_network(tmp_path: Path) -> None:
    partial_file(tmp_path, BODY)
    fetch(NOBODY, tmp_path / "file.bin", md5(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY


@pytest.mark.parametrize("stale", [b"something else", BODY + b"too much"])
def test_a_part_of_something_else_is_thrown_away(tmp_path: Path, stale: bytes) -> None:
    partial_file(tmp_path, stale)
    with serve({"file.bin": BODY}) as site:
        fetch(site.url + "file.bin", tmp_path / "file.bin", md5(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert site.asked == [f"file.bin bytes={len(stale)}-", "file.bin whole"]


def test_a_cut_connection_is_taken_up_again(tmp_path: Path) -> None:
    body = BODY[:400]
    with serve({"file.bin": body}, Cutting) as site:
        fetch(site.url + "file.bin", tmp_path / "file.bin", md5(body))
    assert (tmp_path / "file.bin").read_bytes() == body
    assert site.asked == [
        "file.bin whole",
        "file.bin bytes=200-",
        "file.bin bytes=300-",
        "file.bin bytes=350-",
    ]


def test_a_cut_connection_without_ranges_is_an_error_that_keeps_the_part(tmp_path: Path) -> None:
    with serve({"file.bin": BODY}, CuttingWhole) as site, pytest.raises(DownloadError) as error:
        fetch(site.url + "file.bin", tmp_path / "file.bin", md5(BODY))
    assert "cut after 5120 of 10240 bytes" in str(error.value)
    assert not (tmp_path / "file.bin").exists()
    assert (tmp_path / "file.bin.part").read_bytes() == BODY[:5120]


def test_wrong_content_is_refused_and_removed(tmp_path: Path) -> None:
    with serve({"file.bin": b"an error page"}) as site, pytest.raises(DownloadError) as error:
        fetch(site.url + "file.bin", tmp_path / "file.bin", md5(BODY))
    assert str(error.value) == (
        "cannot download file.bin (127.0.0.1: the file has a wrong checksum)"
    )
    assert list(tmp_path.iterdir()) == []


def test_mirrors_are_tried_in_order(tmp_path: Path) -> None:
    with serve({}) as empty, serve({"f": b"wrong"}) as wrong, serve({"f": BODY}) as right:
        urls = [NOBODY + "f", empty.url + "f", wrong.url + "f", right.url + "f"]
        fetch(urls, tmp_path / "f", md5(BODY))
    assert (tmp_path / "f").read_bytes() == BODY
    assert (len(empty.asked), len(wrong.asked), len(right.asked)) == (1, 1, 1)


def test_without_network_one_line_says_what_to_do(tmp_path: Path) -> None:
    downloads = [Download("a.gz", (NOBODY + "a.gz",), md5(BODY))]
    with pytest.raises(LabelNoiseError) as error:
        fetch_all("mnist", downloads, tmp_path, f"put a.gz into {tmp_path}")
    assert str(error.value) == (
        "cannot download mnist (127.0.0.1: no network? Connection refused): "
        f"put a.gz into {tmp_path} or set LABELNOISE_DATA"
    )


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LabelNoiseError, match=r"cannot write .*/file: File exists"):
        fetch(NOBODY, tmp_path / "file" / "f", md5(BODY))


def test_progress_is_shown_on_stderr_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve({"file.bin": BODY}) as site:
        fetch(site.url + "file.bin", tmp_path / "quiet.bin", md5(BODY))
        assert capsys.readouterr() == ("", "")
        fetch(site.url + "file.bin", tmp_path / "shown.bin", md5(BODY), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "shown.bin" in err


def archive(path: Path, members: Sequence[tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = 3 if kind == tarfile.REGTYPE else 0
    return info


def test_unpack_writes_files_and_folders(tmp_path: Path) -> None:
    folder = tarfile.DIRTYPE
    path = archive(tmp_path / "a.tar.gz", [member("d", folder), member("d/f"), member("g")])
    unpack(path, tmp_path / "out")
    assert (tmp_path / "out/d/f").read_bytes() == (tmp_path / "out/g").read_bytes() == b"xxx"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (member("/etc/evil"), "outside"),
        (member("../evil"), "outside"),
        (member("d/../../evil"), "outside"),
        (member("evil", tarfile.SYMTYPE, "/etc"), "link"),
        (member("evil", tarfile.LNKTYPE, "good"), "link"),
        (member("evil", tarfile.FIFOTYPE), "device"),
    ],
)
def test_unpack_refuses_before_anything_is_written(
    tmp_path: Path, bad: tarfile.TarInfo, reason: str
) -> None:
    path = archive(tmp_path / "a.tar.gz", [member("good"), bad])
    with pytest.raises(LabelNoiseError, match=rf"a\.tar\.gz: refused, .*{reason}"):
        unpack(path, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tar.gz"]


@pytest.mark.parametrize("keep", [0, 5, 40, 90])
def test_unpack_names_a_damaged_archive(tmp_path: Path, keep: int) -> None:
    path = archive(tmp_path / "a.tar.gz", [member("good"), member("better")])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(LabelNoiseError, match=r"a\.tar\.gz: "):
        unpack(path, tmp_path / "out")
