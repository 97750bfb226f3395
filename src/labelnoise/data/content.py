"""The bytes of a file, or an error that names it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labelnoise.errors import LabelNoiseError


def content(path: Path) -> bytes:
    """Everything in a file, decompressed when its name ends in .gz."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return file.read()
        return path.read_bytes()
    except EOFError as error:
        raise LabelNoiseError(f"{path}: truncated, the gzip data stop before their end") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise LabelNoiseError(f"{path}: damaged gzip data ({error})") from error
    except OSError as error:
        raise LabelNoiseError(f"{path}: {error.strerror or error}") from error


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Put the file's name before what is wrong with it."""
    try:
        yield
    except LabelNoiseError as error:
        raise LabelNoiseError(f"{path}: {error}") from error
