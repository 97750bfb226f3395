"""Arrays out of a pickle, without running what is in it.

A pickle is a program: it may call any function by its name. Here it may name those that numpy uses
to write an array, and no others; what it asks for besides is refused before anything happens. Not
even those of numpy are called: they trust what they are told, and a pickle that lies to them ends
the process. What stands for them here takes down shape, kind and bytes, and the bytes are read.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from labelnoise.data.content import content
from labelnoise.errors import LabelNoiseError

TORCH = 0x1950A86A20F9469CFC6C  # what old files of torch.save begin with
BEFORE = 2  # pickles between that and the content: the version, and the machine
NUMBERS = re.compile("[biuf][1248]")  # kinds of arrays that are read, in numpy's letters
ORDERS = ("<", ">", "=", "|")  # of the bytes of a number
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
    return {name: _plain(value) for name, value in found.items()}


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


class _Kind:
    """Stands for numpy's dtype: a letter for the kind of number, its bytes, their order."""

    def __init__(self, name: str = "", *_: Any) -> None:
        self.name, self.order = name, "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]

    @property
    def numbers(self) -> np.dtype[Any] | None:
        """What it is called by numpy; None where it is not for plain numbers."""
        plain = self.order in ORDERS and NUMBERS.fullmatch(self.name)
        return np.dtype(self.order + self.name) if plain else None


class _Array:
    """Stands for numpy's array, which is made with nothing in it and then told its content."""

    content: NDArray[Any] | None = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        if not isinstance(kind, _Kind):
            raise Refused("it has an array of something that is no kind of number: not read")
        if kind.numbers is not None:
            values = np.frombuffer(_bytes(data), kind.numbers)
            self.content = values.reshape(shape, order="F" if fortran else "C").copy()


def _scalar(kind: Any, data: Any = b"") -> Any:
    """A single number, which numpy writes in a way of its own."""
    if not isinstance(kind, _Kind) or kind.numbers is None:
        return None
    return np.frombuffer(_bytes(data), kind.numbers)[0]


def _bytes(data: Any) -> bytes:
    return data.encode("latin1") if isinstance(data, str) else bytes(memoryview(data))


def _plain(value: Any) -> Any:
    """What a stand-in stands for; nothing where that is no array of numbers."""
    if isinstance(value, _Array):
        return value.content
    return None if isinstance(value, _Kind) else value


# Where these lie depends on the version of numpy.
ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
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
