"""Downloads that resume, are verified, and land whole or not at all."""

from __future__ import annotations

import hashlib
import ssl
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import build_opener

from filelock import FileLock

from labelnoise.data.directory import VARIABLE
from labelnoise.errors import LabelNoiseError

TIMEOUT = 10.0  # seconds without a byte
ATTEMPTS = 5  # at one mirror, as long as each one brings something
CHUNK = 1 << 16
RANGE_NOT_SATISFIABLE = 416

NETWORK = (URLError, HTTPException, TimeoutError, ConnectionError, ssl.SSLError)


class DownloadError(LabelNoiseError):
    """No mirror gave the file; `why` says what each of them did."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"cannot download {name} ({why})")
        self.why = why


@dataclass(frozen=True)
class Download:
    """A public file: its name, the addresses it lies at, and the MD5 of its bytes."""

    name: str
    urls: tuple[str, ...]
    md5: str


@contextmanager
def locked(folder: Path, remedy: str) -> Iterator[None]:
    """Hold `folder`, made if need be, so that parallel runs do not download into it at once."""
    lock = FileLock(folder / ".download.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise LabelNoiseError(
            f"cannot download into {folder} ({error.strerror or error}): {remedy} or set {VARIABLE}"
        ) from error
    try:
        yield
    finally:
        lock.release()


def fetch_all(data_set: str, downloads: Sequence[Download], folder: Path, remedy: str) -> None:
    """Bring every download into `folder`; `remedy` says what a person without network can do."""
    for download in downloads:
        try:
            fetch(download.urls, folder / download.name, download.md5)
        except DownloadError as error:
            raise LabelNoiseError(
                f"cannot download {data_set} ({error.why}): {remedy} or set {VARIABLE}"
            ) from error


def fetch(
    urls: str | Sequence[str], destination: Path, md5: str, progress: bool | None = None
) -> None:
    """Download a file from the first mirror that has it, going on where an earlier try stopped.

    Args:
        urls: The mirrors, in the order they are tried.
        destination: The file to write; it appears only when it is whole and verified.
        md5: What the MD5 of the file must be, in hexadecimal.
        progress: Whether to show a bar on stderr; by default, when that is a terminal.
    """
    part = destination.with_name(destination.name + ".part")
    shown = sys.stderr.isatty() if progress is None else progress
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        reasons = []
        for url in [urls] if isinstance(urls, str) else urls:
            reason = _from_mirror(url, part, md5, shown)
            if reason is None:
                part.replace(destination)
                return
            reasons.append(f"{urlsplit(url).hostname}: {reason}")
    except OSError as error:
        where = error.filename or destination
        raise LabelNoiseError(f"cannot write {where}: {error.strerror or error}") from error
    raise DownloadError(destination.name, "; ".join(reasons))


# The check below is ours; Python 3.11.0 to 3.11.3 have no filter of their own beside it.
SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .tar.gz of plain files into `folder`, and nowhere else."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = tar.getmembers()
            for member in members:
                _refuse_escape(archive, member)
            tar.extractall(folder, members, **SAFELY)  # type: ignore[arg-type]  # noqa: S202
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise LabelNoiseError(f"{archive}: damaged archive ({error})") from error
    except OSError as error:  # a full disk, or what gzip makes of damage
        raise LabelNoiseError(f"{archive}: cannot unpack ({error.strerror or error})") from error


def _refuse_escape(archive: Path, member: tarfile.TarInfo) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise LabelNoiseError(f"{archive}: refused, {member.name!r} points outside the archive")
    if not (member.isfile() or member.isdir()):
        raise LabelNoiseError(f"{archive}: refused, {member.name!r} is a link or a device")


def _from_mirror(url: str, part: Path, md5: str, shown: bool) -> str | None:
    """Complete `part` from one mirror; what went wrong, if it did."""
    reason = "nothing came"
    for _ in range(ATTEMPTS):
        start = part.stat().st_size if part.exists() else 0
        # A program stopped between the last byte and the renaming leaves a part that is whole.
        if start and _md5(part) == md5:
            return None
        try:
            _append(url, part, start, shown)
        except HTTPError as error:
            error.close()
            if not (start and error.code == RANGE_NOT_SATISFIABLE):
                return f"HTTP status {error.code}"
        except NETWORK as error:
            reason = _describe(error)
            if not part.exists() or part.stat().st_size <= start:
                return reason
            continue  # it was cut on the way: go on from there
        else:
            if _md5(part) == md5:
                return None
        part.unlink()
        reason = "the file has a wrong checksum"
        # A fresh copy that is wrong stays wrong; one begun at another time deserves a fresh try.
        if not start:
            return reason
    return reason


def _append(url: str, part: Path, start: int, shown: bool) -> None:
    """Stream what lies after byte `start` to the end of `part`."""
    opener = build_opener()
    opener.addheaders = [("User-Agent", "labelnoise")]
    if start:
        opener.addheaders.append(("Range", f"bytes={start}-"))
    with opener.open(url, timeout=TIMEOUT) as response:
        # Without "partial content" the server has ignored the range and sends everything.
        resumed = response.status == 206
        left = response.length
        with (
            part.open("ab" if resumed else "wb") as file,
            _progress(part.stem, left, shown) as advance,
        ):
            received = _copy(response, file.write, advance)
    # Python's own reader takes a connection that closes early for the end of the file.
    if left is not None and received < left:
        raise ConnectionError(f"the connection was cut after {received} of {left} bytes")


def _copy(
    response: HTTPResponse, write: Callable[[bytes], int], advance: Callable[[int], None]
) -> int:
    received = 0
    while chunk := response.read(CHUNK):
        write(chunk)
        advance(len(chunk))
        received += len(chunk)
    return received


@contextmanager
def _progress(name: str, total: int | None, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, or nothing at all."""
    if not shown:
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total)
        yield lambda size: bar.advance(task, size)


def _describe(error: Exception) -> str:
    """One line about a failure of the network."""
    reason = getattr(error, "reason", error)
    text = " ".join(str(getattr(reason, "strerror", None) or reason).split())
    return f"no network? {text}" if isinstance(error, URLError) else text


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, _new_md5).hexdigest()


def _new_md5() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)  # guards against accidents, as the publishers do
