"""Arrays out of a pickle, without running what is in it.

A pickle is a program: it may call any function by its name. Here it may name those that numpy uses
to write an array, and no others; what it asks for besides is refused before anything happens.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from labelnoise.data.content import content
from labelnoise.errors import LabelNoiseError

TORCH = 0x1950A86A20F9469CFC6C  # what old files of torch.save begin with
BEFORE = 2  # pickles between that and the content: the version, and the machine
DAMAGE = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, ImportError),
    *(AttributeError, MemoryError, OverflowError, zipfile.BadZipFile, OSError),
)


class Refused(LabelNoiseError):  # noqa: N818 - what is done with it
    """A pickle that names something else than an array."""


def read_pickled(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle or in a file of `torch.save`, of arrays, lists, numbers, text."""
    data = content(path)
    try:
        found = _read(data)
    except Refused as error:
        raise LabelNoiseError(f"{path}: {error}") from None
    except DAMAGE as error:
        raise LabelNoiseError(f"{path}: damaged, or no pickle of arrays ({error})") from error
    if not isinstance(found, dict):
        raise LabelNoiseError(f"{path}: a dictionary expected, found {type(found).__name__}")
    return found


def _read(data: bytes) -> Any:
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            inner = next((n for n in archive.namelist() if n.endswith("data.pkl")), "")
            return _Arrays(io.BytesIO(archive.read(inner))).load()
    stream = io.BytesIO(data)
    found = _Arrays(stream).load()
    if found != TORCH or not isinstance(found, int):
        return found
    for _ in range(BEFORE):
        _Arrays(stream).load()
    return _Arrays(stream).load()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes in an old protocol."""
    if encoding != "latin1":
        raise Refused(f"it asks for the encoding {encoding!r}, which arrays do not need")
    return text.encode("latin1")


# Where these lie depends on the version of numpy.
_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
_SCALAR: Any = np.int64(0).__reduce__()[0]

ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy._core.multiarray", "scalar"): _SCALAR,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
}


class _Arrays(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="latin1")  # CIFAR-100 was written by Python 2

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise Refused(f"it asks to run {module}.{name}, which no array needs: not read")
        return ALLOWED[module, name]

    def persistent_load(self, identity: Any) -> NoReturn:
        raise Refused("it refers to data outside the pickle, which no array needs: not read")
